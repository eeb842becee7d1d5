package status

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

// keyOrder is the order of fields in the text of a status; others follow by name.
var keyOrder = []string{
	"phase", "type", "status", "exitCode", "reason", "message", "startedAt", "finishedAt",
	"observedGeneration", "lastTransitionTime", "lastProbeTime",
	"qosClass", "startTime", "hostIP", "hostIPs", "podIP", "podIPs", "conditions",
	"initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses",
	"name", "state", "lastState", "ready", "started", "restartCount", "image", "imageID", "containerID",
}

// render writes a status as YAML that people read: a condition on one line, a
// container on a few, and nothing that is empty.
func render(t *testing.T, s v1.PodStatus) string {
	t.Helper()
	text, err := json.Marshal(s)
	require.NoError(t, err)
	var fields map[string]any
	require.NoError(t, json.Unmarshal(text, &fields))
	var out strings.Builder
	for _, key := range ordered(fields) {
		list, ok := fields[key].([]any)
		if !ok || !strings.HasSuffix(key, "tatuses") && key != "conditions" {
			fmt.Fprintf(&out, "  %s: %s\n", key, flow(fields[key]))
			continue
		}
		fmt.Fprintf(&out, "  %s:\n", key)
		for _, element := range list {
			if key == "conditions" {
				fmt.Fprintf(&out, "  - %s\n", flow(element))
			} else {
				out.WriteString(container(element.(map[string]any)))
			}
		}
	}
	return strings.TrimSuffix(out.String(), "\n")
}

// container puts the three states first, on lines of their own, then the rest.
func container(c map[string]any) string {
	var out strings.Builder
	lead := "  - "
	line := func(keys ...string) {
		for _, key := range keys {
			if value, ok := c[key]; ok && !(key == "lastState" && flow(value) == "{}") {
				fmt.Fprintf(&out, "%s%s: %s\n", lead, key, flow(value))
				lead = "    "
			}
			delete(c, key)
		}
	}
	line("name", "state", "lastState")
	line(ordered(c)...)
	return out.String()
}

func ordered(fields map[string]any) (keys []string) {
	for key, value := range fields {
		if value != nil {
			keys = append(keys, key)
		}
	}
	rank := func(key string) int {
		if i := slices.Index(keyOrder, key); i >= 0 {
			return i
		}
		return len(keyOrder)
	}
	slices.SortFunc(keys, func(a, b string) int {
		if d := rank(a) - rank(b); d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	return keys
}

var plain = regexp.MustCompile(`^[A-Za-z/][A-Za-z0-9./_-]*( [A-Za-z0-9./_-]+)*$`)

func flow(v any) string {
	switch v := v.(type) {
	case map[string]any:
		var parts []string
		for _, key := range ordered(v) {
			parts = append(parts, key+": "+flow(v[key]))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case []any:
		var parts []string
		for _, element := range v {
			parts = append(parts, flow(element))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case string:
		v = collapse(v)
		if word := strings.ToLower(v); plain.MatchString(v) && !slices.Contains([]string{"true", "false", "null", "yes", "no", "on", "off", "y", "n"}, word) {
			return v
		}
		return strconv.Quote(v)
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	default:
		return fmt.Sprint(v)
	}
}
