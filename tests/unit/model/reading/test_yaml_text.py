"""YAML: aliases work, recursive documents are refused before they are expanded, and duplicate keys are refused where requested."""

import pytest

from wharfinger.model.reading import decode, yaml_text


def parsed(text):
    return list(yaml_text.parse_yaml(text.encode()))


def billions():
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    return "\n".join([*lines, *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10))])


def tower(storeys):
    """Each alias goes 60 levels above the one before, no two of them too deep."""
    return "\n".join(f"a{n}: &a{n} {'[' * 60}{f'*a{n - 1}' if n else 'x'}{']' * 60}" for n in range(storeys))


def test_a_yaml_alias_is_replaced_by_its_value():
    assert parsed("a: &x {b: [1, *y]}\nc: *x".replace("*y", "2")) == [{"a": {"b": [1, 2]}, "c": {"b": [1, 2]}}]
    assert parsed("a: &x {b: 1}\nc: {<<: *x, d: 2}") == [{"a": {"b": 1}, "c": {"b": 1, "d": 2}}]


def test_aliases_of_aliases_for_millions_of_values_are_refused():
    with pytest.raises(decode.NotReadable, match="its aliases expand to more than 1,000,000 values"):
        parsed(billions())


@pytest.mark.parametrize(
    ("large", "n", "what"),
    [
        ("x" * 100_000, 1000, "16,777,216 characters"),
        (f"{{{'x' * 1000}: 1}}", 30_000, "16,777,216 characters"),
        ("9" * 1000, 30_000, "16,777,216 characters"),
        (f"!!set {{{', '.join(map(str, range(2000)))}}}", 1000, "1,000,000 values"),
        (f"!!pairs [{', '.join(f'{n}: 1' for n in range(1000))}]", 1000, "1,000,000 values"),
    ],
    ids=["a text", "a key", "a number", "a set", "pairs"],
)
def test_aliases_of_large_values_are_refused(large, n, what):
    assert parsed(f"a: &a {large}\nb: [*a, *a]")
    with pytest.raises(decode.NotReadable, match=f"its aliases expand to more than {what}"):
        parsed(f"a: &a {large}\nb: [{', '.join(['*a'] * n)}]")


@pytest.mark.parametrize("text", ["a: &a [*a]", "&a [*a]", "a: &a\n  b:\n  - *a", "a: &a {b: *a}"])
def test_an_alias_for_what_contains_it_is_refused(text):
    with pytest.raises(decode.NotReadable, match="an alias contains itself"):
        parsed(text)


def test_aliases_on_top_of_each_other_are_no_deeper_than_brackets_may_be():
    assert parsed(tower(3))
    with pytest.raises(decode.NotReadable, match="values are nested more than 200 levels deep"):
        parsed(tower(4))


def test_the_last_of_equal_keys_counts_unless_keys_must_be_unique():
    text = "a: 1\nb:\n- {c: 1, d: 2}\n- c: 1\n  c: 2\n"

    assert parsed(text) == [{"a": 1, "b": [{"c": 1, "d": 2}, {"c": 2}]}]
    with pytest.raises(decode.NotReadable, match='line 5: the key "c" is there twice'):
        list(yaml_text.parse_yaml(text.encode(), unique_keys=True))


def test_keys_that_are_merged_in_may_be_said_again():
    text = "a: &x {b: 1}\nc: {<<: *x, b: 2}"

    assert list(yaml_text.parse_yaml(text.encode(), unique_keys=True)) == [{"a": {"b": 1}, "c": {"b": 2}}]


def test_keys_that_are_merged_into_others_are_unique_in_their_own_mapping():
    text = "a: &x {b: 1}\nc:\n  d: &y {<<: *x, b: 2}\ne: {<<: *y}"  # `e` is constructed before `d`

    assert list(yaml_text.parse_yaml(text.encode(), unique_keys=True)) == [{"a": {"b": 1}, "c": {"d": {"b": 2}}, "e": {"b": 2}}]
    with pytest.raises(decode.NotReadable, match='line 3: the key "b" is there twice'):
        list(yaml_text.parse_yaml(text.replace("b: 2", "b: 2, b: 3").encode(), unique_keys=True))


def merges(n):
    """Mappings that each merge the one before ten times: each has ten times as many entries, of three keys."""
    return "\n".join(["a0: &a0 {x: 1, y: 2, z: 3}", *(f"a{i + 1}: &a{i + 1} {{<<: [{', '.join([f'*a{i}'] * 10)}]}}" for i in range(n))])


def test_merges_of_merges_for_millions_of_entries_are_refused():
    assert parsed(merges(3))[0]["a3"] == {"x": 1, "y": 2, "z": 3}
    with pytest.raises(decode.NotReadable, match=r"^line 7: its merges \(`<<`\) expand to more than 1,000,000 entries; write out"):
        parsed(merges(30))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("&a {<<: *a, b: 1}", "line 1: a mapping is merged into itself"),
        ("a: &a\n  <<: [{<<: *a}]", "line 1: a mapping is merged into itself"),
        ("a: &a {b: {<<: *a}}", "values are nested more than 200 levels deep, or an alias contains itself"),
    ],
)
def test_a_merge_of_a_mapping_into_itself_is_refused(text, reason):
    with pytest.raises(decode.NotReadable) as raised:
        parsed(text)
    assert str(raised.value) == reason


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("!!int ''", "``"),
        ("!!int ten", "`ten`"),
        ("!!float ''", "``"),
        ("!!float ten", "`ten`"),
        ("!!bool ten", "`ten`"),
        ("!!timestamp ten", "`ten`"),
        ("!!timestamp 2001-99-14", "`2001-99-14`"),
        ("!!int '1:2:'", "`1:2:`"),
        (f"{'10:' * 400}10.5", f"`{'10:' * 13}1…`"),
    ],
)
def test_a_value_that_its_tag_does_not_fit_is_named(value, shown):
    with pytest.raises(decode.NotReadable) as raised:
        parsed(f"a: 1\nb: {value}\n")
    tag = value.split()[0].removeprefix("!!") if value.startswith("!!") else "float"
    assert str(raised.value) == f"line 2: {shown} is no value of the tag !!{tag}"


@pytest.mark.parametrize("number", ["9" * 1001, "0x" + "f" * 5000, "-0b" + "1" * 20_000])
def test_a_number_that_cannot_be_written_again_is_refused_with_its_place(number):
    assert parsed("a: 0x1f\nb: 0b11\nc: -12_000\nd: " + "9" * 1000) == [{"a": 31, "b": 3, "c": -12_000, "d": 10**1000 - 1}]
    with pytest.raises(decode.NotReadable, match=r"^line 2: a number with more than 1,000 digits$"):
        parsed(f"a: 1\nb: {number}\n")
