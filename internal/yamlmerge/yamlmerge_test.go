package yamlmerge

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"sigs.k8s.io/yaml"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// decode expands and decodes strictly, as all callers do.
func decode(t *testing.T, text string) any {
	t.Helper()
	expanded, err := Expand([]byte(text))
	require.NoError(t, err)
	var v any
	require.NoError(t, yaml.UnmarshalStrict(expanded, &v), "%s", expanded)
	return v
}

func TestMergedFields(t *testing.T) {
	const base = "a: &a {x: 1, w: 1}\nb: &b {w: 2, z: 2}\n"
	for name, c := range map[string]struct{ object, want string }{
		"no override":            {"c: {<<: *a}", "{x: 1, w: 1}"},
		"override after":         {"c: {<<: *a, w: 3}", "{x: 1, w: 3}"},
		"override before":        {"c: {w: 3, <<: *a}", "{x: 1, w: 3}"},
		"quoted override":        {`c: {"w": 3, <<: *a}`, "{x: 1, w: 3}"},
		"first of a list":        {"c: {<<: [*a, *b]}", "{x: 1, w: 1, z: 2}"},
		"last of two merge keys": {"c: {<<: *a, <<: *b}", "{x: 1, w: 2, z: 2}"},
		"inline object":          {"c: {<<: {x: 5}, w: 3}", "{x: 5, w: 3}"},
		"nested":                 {"d: &d {<<: *a, x: 7}\nc: {<<: *d, w: 8}", "{x: 7, w: 8}"},
		"no deep merge":          {"d: &d {m: {x: 1}}\nc: {<<: *d, m: {w: 1}}", "{m: {w: 1}}"},
		"anchor in a merge key":  {"c: {<<: &e {x: 9}, m: *e}", "{x: 9, m: {x: 9}}"},
		"quoted <<":              {`c: {"<<": 1}`, `{"<<": 1}`},
		"JSON":                   {`c: {"x": "<<", "<<": {"w": 1}}`, `{"x": "<<", "<<": {"w": 1}}`},
	} {
		t.Run(name, func(t *testing.T) {
			var want any
			require.NoError(t, yaml.Unmarshal([]byte(c.want), &want))
			require.Equal(t, want, decode(t, base+c.object).(map[string]any)["c"])
		})
	}
}

// Writing a text anew must not change the type or text of any value.
func TestValuesAreUnchanged(t *testing.T) {
	for _, value := range []string{
		"yes", "no", "on", "y", "true", "'true'", "null", "~", "''", "1", "'1'", "0644", "0o14", "0x1f", "1_000", "1:20", "1.5", "1e3", "-0",
		"2001-01-01", "2001-01-01T00:00:00Z", "a, b", "a: {b: c}", "[a, 'b', [c]]", "!!str 123", "!!int '7'", "!!binary aGVsbG8=",
		"\"a\\tb\\u00e9\\n\"", "a\n    b\n\n    c", "|\n    one\n     two\n\n    three\n", "|+\n    one\n\n", ">-\n    one\n    two\n", "|2-\n      lead\n",
		"=", "'<<'", "-1", "\"# no comment\"", "é", "'a: b'", "100m", "!foo bar",
	} {
		t.Run(value, func(t *testing.T) {
			text := "v: " + value + "\n"
			if strings.Contains(value, "a: {") {
				text = "v:\n    " + value + "\n"
			}
			var want map[string]any
			require.NoError(t, yaml.UnmarshalStrict([]byte(text), &want))
			require.Equal(t, want["v"], decode(t, "# <<\nm: {<<: {}}\n"+text).(map[string]any)["v"])
		})
	}
}

func TestExpandErrors(t *testing.T) {
	var bomb strings.Builder
	fmt.Fprintln(&bomb, "a0: &a0 {x: 1, y: 2}")
	for i := range 30 {
		fmt.Fprintf(&bomb, "a%d: &a%d {<<: *a%d, l: *a%d, r: *a%d}\n", i+1, i+1, i, i, i)
	}
	for name, c := range map[string]struct{ text, want string }{
		"repeated field":         {"b: {<<: {}}\na: 1\na: 2", `line 3: key "a" already set in map`},
		"repeated merged field":  {"c: {<<: {a: 1, a: 2}}", `line 1: key "a" already set in map`},
		"repeated deeper field":  {"b: {<<: {}}\nl:\n- c:\n    x: 1\n    x: 1", `line 5: key "x" already set in map`},
		"merge of a text":        {"c: {<<: text}", "map merge requires map or sequence of maps as the value"},
		"merge of a mixed list":  {"c: {<<: [{a: 1}, 2]}", "map merge requires map or sequence of maps as the value"},
		"anchor contains itself": {"c: &c {<<: *c}", `line 1: anchor "c" contains itself`},
		"alias bomb":             {bomb.String(), errTooManyValues.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Expand([]byte(c.text))
			require.EqualError(t, err, c.want)
		})
	}
}

// The decoder reports errors of texts that Expand leaves unchanged.
func TestTextsWithoutMergeKeysAreUnchanged(t *testing.T) {
	for _, text := range []string{"", "a: 1\na: 2\n", "a: <<", "- '<<': 1", "<<: [", "a: &a [*a, '<<']\n", "\tx: <<"} {
		got, err := Expand([]byte(text))
		require.NoError(t, err)
		require.Equal(t, text, string(got))
	}
}
