import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorflow.errors import ConfigError
from actorflow.launch.nodelist import MOST, hosts


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("login", ["login"]),
        ("a,b-1.example.org", ["a", "b-1.example.org"]),
        ("gpu[01-03,7]", ["gpu01", "gpu02", "gpu03", "gpu7"]),
        ("n[9-11]", ["n9", "n10", "n11"]),
        ("n[009-011]x", ["n009x", "n010x", "n011x"]),
        ("rack[1-2]n[08-09],login", ["rack1n08", "rack1n09", "rack2n08", "rack2n09", "login"]),
        ("[1-2]", ["1", "2"]),
    ],
)
def test_the_hosts_of_a_list_in_its_order(text, names):
    assert hosts(text) == names


@pytest.mark.parametrize(
    "text",
    [
        "",
        ",",
        "a,",
        ",a",
        "a,,b",
        "n[",
        "n]",
        "n[]",
        "n[1",
        "n[1-]",
        "n[-2]",
        "n[2-1]",
        "n[a-b]",
        "n[[1]]",
        "n[1-2-3]",
        "a b",
        "n[1-99999999999]",
        "n[\u0661-2]",
        "n[1,]",
        "n[1]]",
    ],
)
def test_what_is_no_list_is_refused(text):
    with pytest.raises(ConfigError, match="a list of hosts must look like"):
        hosts(text)


@pytest.mark.parametrize("text", [f"n[1-{MOST + 1}]", "n[0-999][0-999]", f"a,n[1-{MOST}]", "n[1-65536,1-9]"])
def test_a_list_of_more_hosts_than_there_are_is_refused_before_it_is_made(text):
    with pytest.raises(ConfigError, match=f"may name {MOST}"):
        hosts(text)


@given(st.text(alphabet="an01239[]-, .", max_size=20))
def test_any_text_is_read_or_refused(text):
    try:
        found = hosts(text)
    except ConfigError:
        return
    assert found and all(name and not set(name) & set("[], ") for name in found)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a", "gpu", "n-"]), st.integers(0, 999), st.integers(0, 20), st.integers(1, 4)
        ),
        min_size=1,
        max_size=5,
    )
)
def test_a_list_that_was_written_is_read_again(runs):
    text = ",".join(f"{name}[{first:0{width}d}-{first + more}]" for name, first, more, width in runs)

    assert hosts(text) == [
        f"{name}{n:0{width}d}" for name, first, more, width in runs for n in range(first, first + more + 1)
    ]
