package pods_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// difference is a field with two different values.
type difference struct {
	field, want, got string
}

// differences compares two JSON values. Fields of objects, and elements of lists of equal length,
// are compared one by one.
func differences(want, got any) []difference {
	return appendDifferences(nil, "", want, got)
}

func appendDifferences(out []difference, field string, want, got any) []difference {
	switch w := want.(type) {
	case map[string]any:
		if g, ok := got.(map[string]any); ok {
			keys := maps.Clone(w)
			maps.Copy(keys, g)
			for _, key := range slices.Sorted(maps.Keys(keys)) {
				out = appendDifferences(out, join(field, key), member(w, key), member(g, key))
			}
			return out
		}
	case []any:
		if g, ok := got.([]any); ok && len(g) == len(w) {
			for i := range w {
				out = appendDifferences(out, join(field, fmt.Sprint(i)), w[i], g[i])
			}
			return out
		}
	}
	if a, b := show(want), show(got); a != b {
		out = append(out, difference{field, a, b})
	}
	return out
}

// absent stands for a missing field, as distinct from null.
type absent struct{}

func member(object map[string]any, key string) any {
	if value, ok := object[key]; ok {
		return value
	}
	return absent{}
}

func join(field, key string) string { return strings.TrimPrefix(field+"/"+key, "/") }

func show(value any) string {
	if value == (any)(absent{}) {
		return "nothing"
	}
	text, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// exception is an intended difference. In both patterns * matches any text.
type exception struct {
	pods, field, reason string
}

// indexDeliberate returns the index of the exception for a pod's field, or -1.
func indexDeliberate(pod, field string) int {
	return slices.IndexFunc(deliberate, func(e exception) bool { return glob(e.pods, pod) && glob(e.field, field) })
}

func glob(pattern, text string) bool {
	expression := strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, `.*`)
	return regexp.MustCompile("^" + expression + "$").MatchString(text)
}

func TestDifferences(t *testing.T) {
	parse := func(text string) any {
		var value any
		require.NoError(t, json.Unmarshal([]byte(text), &value))
		return value
	}
	want := parse(`{"same": [1, {"a": "b"}], "list": [1, 2], "longer": [1], "gone": null, "kind": {"a": 1}, "deep": {"er": [{"x": 1}, {"x": 2}]}}`)
	got := parse(`{"same": [1, {"a": "b"}], "list": [1, 3], "longer": [1, 2], "new": 7, "kind": [1], "deep": {"er": [{"x": 1}, {"x": 3}]}}`)
	require.Equal(t, []difference{
		{"deep/er/1/x", "2", "3"},
		{"gone", "null", "nothing"},
		{"kind", `{"a":1}`, "[1]"},
		{"list/1", "2", "3"},
		{"longer", "[1]", "[1,2]"},
		{"new", "nothing", "7"},
	}, differences(want, got))
	require.Empty(t, differences(want, want))
}
