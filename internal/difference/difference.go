// Package difference prints the differences of two values for the messages of test suites:
//
//	fmt.Errorf("the status differs:\n%s", difference.Of(got, want))
//
// It is safe for concurrent use. Fields that JSON omits are invisible.
package difference

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Of compares the JSON forms of two values and lists the differing fields, one per line:
// "path: value, must be value". A condition is identified by its type, other elements of lists by
// their index.
func Of(got, want any) string {
	var lines []string
	differ("", plain(got), plain(want), &lines)
	return strings.Join(lines, "\n")
}

func plain(v any) (out any) {
	text, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	if err != nil {
		return err.Error()
	}
	return out
}

func differ(path string, got, want any, lines *[]string) {
	a, b := parts(got), parts(want)
	if a == nil || b == nil {
		if x, y := text(got), text(want); x != y {
			*lines = append(*lines, fmt.Sprintf("%s: %s, must be %s", strings.TrimPrefix(path, "."), x, y))
		}
		return
	}
	all := maps.Clone(a)
	maps.Copy(all, b)
	for _, key := range slices.Sorted(maps.Keys(all)) {
		differ(path+key, a[key], b[key], lines)
	}
}

// parts returns the fields of an object or the elements of a list, or nil for other values.
func parts(v any) map[string]any {
	out := map[string]any{}
	switch v := v.(type) {
	case map[string]any:
		for key, field := range v {
			out["."+key] = field
		}
	case []any:
		for i, element := range v {
			key := fmt.Sprintf("[%d]", i)
			if object, ok := element.(map[string]any); ok && object["type"] != nil {
				key = fmt.Sprintf("[%v]", object["type"])
			}
			out[key] = element
		}
	default:
		return nil
	}
	return out
}

func text(v any) string {
	if v == nil {
		return "absent"
	}
	out, _ := json.Marshal(v) // it comes from JSON
	return string(out)
}
