"""Text tables: headers of every kind, quotes, and cells that are no numbers."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import source_containers as containers

from majorica.errors import DataError, MajoricaWarning, ParameterError
from majorica.sources import as_source

X = np.random.default_rng(0).standard_normal((300, 4))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("1,2\n3,4\n", None),
        ("a,b\n1,2\n3,4\n", ("a", "b")),
        ('\ufeff"a b";"c"\r\n1;2\r\n3;4\r\n', ("a b", "c")),
        ("a\tb\n1\t2\n\n3\t4", ("a", "b")),
        ("\n 1   2\n 3   4\n\n", None),
        ('"1","2"\n"3","4"\n', None),
        ("1e0,+2.\n3,4.0\n", None),
    ],
)
def test_csv(text, names, tmp_path):
    (tmp_path / "x.csv").write_text(text, encoding="utf-8", newline="")
    source = as_source(tmp_path / "x.csv")
    assert source.feature_names == names
    np.testing.assert_array_equal(source.read(0, 2), [[1, 2], [3, 4]])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n3,x\n", r"line 3, column 2: 'x'"),
        ("1,2\n3\n", "line 2 has 1 cells"),
        ("1,2\n\n3,\n", "line 3, column 2: ''"),
        ("a,b\n", "no line of numbers"),
        ("\n\n", "no line of numbers"),
    ],
)
def test_csv_errors(text, message, tmp_path):
    (tmp_path / "x.csv").write_text(text)
    with pytest.raises(DataError, match=message):
        as_source(tmp_path / "x.csv")


def test_csv_in_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr("majorica.sources.csv.LINES", 7)
    given, _ = containers.text(X, tmp_path)
    np.testing.assert_array_equal(as_source(given).read(0, 300), X)
    np.testing.assert_array_equal(as_source(given, picks=["c2", "c0"]).read(0, 300), X[:, [2, 0]])
    with open(given, "a") as file:
        file.write("1,2,3\n")
    with pytest.raises(DataError, match="line 302 has 3 cells"):
        as_source(given)
    with pytest.raises(ParameterError, match="'z'"):
        as_source(given, picks=["z"])


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("quote", ["", '"'])
def test_a_header_that_counts_the_columns_is_no_sample(first, quote, tmp_path):
    line = ",".join(f"{quote}{first + j}{quote}" for j in range(4))
    np.savetxt(tmp_path / "x.csv", X, delimiter=",", header=line, comments="")
    with pytest.warns(MajoricaWarning, match=rf"counts the columns, {first} to {first + 3}, .*for a header"):
        source = as_source(tmp_path / "x.csv")
    assert (source.n_samples, source.feature_names) == (300, None)
    np.testing.assert_array_equal(source.read(0, 300), X)
    for picks in ([first + 2, first], [str(first + 2), str(first)]):
        with pytest.warns(MajoricaWarning, match="header"):
            chosen = as_source(tmp_path / "x.csv", picks=picks)
        np.testing.assert_array_equal(chosen.read(0, 300), X[:, [2, 0]])


@pytest.mark.parametrize("text", ["0,1\n2,3\n", "0\n0.5\n", "1,0\n0.5,1.5\n", "0.0,1.0\n0.5,1.5\n", "1,2\n3,4\n"])
def test_a_first_line_of_numbers_is_a_sample(text, tmp_path):
    source = as_source(write(tmp_path / "x.csv", text))
    assert (source.n_samples, source.feature_names) == (2, None)


def test_a_first_line_that_counts_above_whole_numbers_is_a_sample_but_said(tmp_path):
    with pytest.warns(MajoricaWarning, match="for a sample; remove it if it is a header"):
        source = as_source(write(tmp_path / "x.csv", "0,1,2\n3,4,5\n"))
    assert source.n_samples == 2


def test_pandas_tables_read_as_they_were_written(tmp_path):
    pandas = pytest.importorskip("pandas")
    for columns in (None, list("abcd"), ["a,1", 'b "c"', "d;e", "f g"]):
        frame = pandas.DataFrame(X, columns=columns)
        for index in (False, True):
            frame.to_csv(tmp_path / "x.csv", index=index)
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                source = as_source(tmp_path / "x.csv")
            assert len(said) == (1 if index or columns is None else 0)
            assert source.feature_names == (None if columns is None else tuple(columns))
            np.testing.assert_array_equal(source.read(0, 300), X)


def test_an_index_is_left_out_and_said(tmp_path):
    path = write(tmp_path / "x.csv", '"","a","b"\n"row 1",1,2\n"row 2",3,4\n')
    with pytest.warns(MajoricaWarning, match="first column has no name"):
        source = as_source(path)
    assert source.feature_names == ("a", "b")
    np.testing.assert_array_equal(source.read(0, 2), [[1, 2], [3, 4]])
    np.testing.assert_array_equal(as_source(path, picks=["b"]).read(0, 2), [[2], [4]])
    with pytest.raises(DataError, match="line 3, column 2: 'x'"), pytest.warns(MajoricaWarning, match="no name"):
        as_source(write(path, ",a,b\n0,1,2\n1,x,4\n"))


@pytest.mark.parametrize("separator", [",", ";", "\t", " "])
def test_separators_within_quoted_names(separator, tmp_path):
    path = write(tmp_path / "x.csv", separator.join(['"a,1"', '"b;\t2"', '"c ""3"""']) + "\n")
    with open(path, "a") as file:
        file.write(separator.join("123") + "\n")
    source = as_source(path)
    assert source.feature_names == ("a,1", "b;\t2", 'c "3"')
    np.testing.assert_array_equal(source.read(0, 1), [[1, 2, 3]])


@pytest.mark.parametrize("cell", ["", "NA", "null"])
def test_missing_cells_are_errors_and_nan_is_not(cell, tmp_path):
    with pytest.raises(DataError, match=f"line 3, column 2: '{cell}' is not a number"):
        as_source(write(tmp_path / "x.csv", f"a,b\n1,2\n3,{cell}\n"))
    assert np.isnan(as_source(write(tmp_path / "x.csv", "a,b\n1,2\n3,nan\n")).read(1, 2)[0, 1])


def test_decimal_commas_are_named(tmp_path):
    with pytest.raises(DataError, match="'1,5' is not a number; write decimals with points"):
        as_source(write(tmp_path / "x.csv", "a;b\n1,5;2,5\n"))
