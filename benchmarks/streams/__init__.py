"""What samples far out do to streams, with and without the rule that draws them in."""
