"""The race: majorica beside its peers on the same data, judged by samples nobody fitted."""
