package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/syncloop/podsource"
)

// secondsFields are the paths of all fields of seconds below a type, with their bits.
func secondsFields(of reflect.Type, path string) map[string]int {
	found := map[string]int{}
	switch {
	case of.Kind() == reflect.Pointer:
		return secondsFields(of.Elem(), path)
	case of.Kind() == reflect.Slice:
		return secondsFields(of.Elem(), path+"[0]")
	case of.Kind() != reflect.Struct && strings.HasSuffix(strings.ToLower(path), "seconds"):
		found[path] = of.Bits()
	case of.Kind() == reflect.Struct:
		for i := range of.NumField() {
			name, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
			below := path // of what is embedded
			if name != "" {
				below = strings.TrimPrefix(path+"."+name, ".")
			}
			maps.Copy(found, secondsFields(of.Field(i).Type, below))
		}
	}
	return found
}

// besides is what a pod needs in addition to a field, by what the field stands in.
var besides = map[string]string{
	"initContainers":      `{"name": "i", "image": "busybox:1", "imagePullPolicy": "IfNotPresent", "restartPolicy": "Always"}`,
	"containers":          `{"name": "a", "image": "busybox:1", "imagePullPolicy": "IfNotPresent"}`,
	"ephemeralContainers": `{"name": "e", "image": "busybox:1", "imagePullPolicy": "IfNotPresent"}`,
	"livenessProbe":       `{"exec": {"command": ["true"]}}`,
	"readinessProbe":      `{"exec": {"command": ["true"]}}`,
	"startupProbe":        `{"exec": {"command": ["true"]}}`,
	"tolerations":         `{"operator": "Exists", "effect": "NoExecute"}`,
	"volumes":             `{"name": "v"}`,
	"serviceAccountToken": `{"path": "token"}`,
}

// manifestWith is a pod with a value in one field.
func manifestWith(t *testing.T, uid, path string, value int64) []byte {
	pod := map[string]any{}
	require.NoError(t, json.Unmarshal(fmt.Appendf(nil, `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod-%s", "namespace": "ns", "uid": "%s"},
		"spec": {"hostNetwork": true, "restartPolicy": "Always", "terminationGracePeriodSeconds": 2, "containers": [%s]}}`, uid, uid, besides["containers"]), &pod))
	steps, at := strings.Split(path, "."), pod
	for _, step := range steps[:len(steps)-1] {
		name, isList := strings.CutSuffix(step, "[0]")
		if at[name] == nil {
			below := map[string]any{}
			require.NoError(t, json.Unmarshal([]byte(cmp.Or(besides[name], "{}")), &below))
			if at[name] = below; isList {
				at[name] = []any{below}
			}
		}
		if list, is := at[name].([]any); is {
			at = list[0].(map[string]any)
		} else {
			at = at[name].(map[string]any)
		}
	}
	at[steps[len(steps)-1]] = value
	text, err := json.Marshal(pod)
	require.NoError(t, err)
	return text
}

// secondsRows say what becomes of a pod with the largest and with the smallest value: it
// runs, is refused with the name of the field, or what its status gives as a reason. The
// first row that fits counts.
var secondsRows = []struct{ field, most, least string }{
	{`^spec\.ephemeralContainers\[0]\.\w+Probe\.(initialDelay|timeout|period|terminationGracePeriod)Seconds$`, "refused", "refused"}, // they have no probes
	{`\.readinessProbe\.terminationGracePeriodSeconds$`, "refused", "refused"},                                                       // it ends nothing
	{`\.\w+Probe\.(initialDelay|timeout|period|terminationGracePeriod)Seconds$`, "runs", "refused"},
	{`^spec\.(c|initC)ontainers\[0]\.lifecycle\.postStart\.sleep\.seconds$`, "runs", "CrashLoopBackOff"},
	{`\.lifecycle\.(postStart|preStop)\.sleep\.seconds$`, "runs", "runs"},
	{`^spec\.terminationGracePeriodSeconds$`, "runs", "runs"},
	{`^spec\.activeDeadlineSeconds$`, "runs", status.ReasonDeadlineExceeded},
	{`^spec\.tolerations\[0]\.tolerationSeconds$`, "runs", "runs"},                                 // the control plane counts them
	{`\.(serviceAccountToken|podCertificate)\.(expiration|maxExpiration)Seconds$`, "runs", "runs"}, // no container mounts it
	{`(^|\.volumeClaimTemplate\.)metadata\.deletionGracePeriodSeconds$`, "runs", "runs"},
}

// Every field of seconds that a pod has, with the largest and the smallest value, each in a
// pod of its own and all at the same time: none turns into its opposite, and the pod beside
// them is left alone. Manifests are refused by the field or become a pod; an API server may
// let through what they may not have. A field that secondsRows do not know fails the test.
func TestEverySecondsField(t *testing.T) {
	decoder := podsource.Decoder{NodeName: "n", Volumes: append([]string{"ephemeral"}, volumeKinds...), Objects: objectKinds, Check: unsupported}
	good := podOf("good", v1.RestartPolicyAlways, "good")
	pods, paths, want, used := []*v1.Pod{good}, map[types.UID]string{}, map[types.UID]string{}, map[int]bool{}
	requireNamed := func(path, refusal string) { // the field, or what it stands in
		named, _, _ := strings.Cut(refusal, ": ")
		require.True(t, strings.HasPrefix(path, named), "%s: %s", path, refusal)
	}
	for path, bits := range secondsFields(reflect.TypeFor[v1.Pod](), "") {
		row := slices.IndexFunc(secondsRows, func(row struct{ field, most, least string }) bool {
			return regexp.MustCompile(row.field).MatchString(path)
		})
		require.NotEqual(t, -1, row, "what becomes of a pod with %s?", path)
		used[row] = true
		most := int64(math.MaxInt64) >> (64 - bits)
		for value, becomes := range map[int64]string{most: secondsRows[row].most, -most - 1: secondsRows[row].least} {
			pod, text := &v1.Pod{}, manifestWith(t, fmt.Sprint(len(pods)), path, value)
			require.NoError(t, json.Unmarshal(text, pod))
			pods, paths[pod.UID], want[pod.UID] = append(pods, pod), fmt.Sprint(path, ": ", value), becomes
			if _, err := decoder.Decode(text, "file:/m"); err != nil {
				requireNamed(path, err.Error())
			} else {
				require.Equal(t, "runs", becomes, "a manifest with %s %d", path, value)
				require.True(t, value > 0 || strings.HasSuffix(path, ".tolerationSeconds"), "a manifest with %s %d", path, value)
			}
		}
	}
	require.Len(t, used, len(secondsRows), "a row is of no field")

	slowly := func(ctx context.Context, p *fake.Process) int {
		select {
		case <-p.Signals():
			run.Sleep(ctx, 5*time.Second)
		case <-ctx.Done():
		}
		return 0
	}
	inWorld(t, fake.Config{Programs: fake.Always(slowly), Exec: fake.Always(fake.Exit(0))}, func(w *world) {
		w.set(pods...)
		w.start()
		w.sleep(50 * time.Second)
		for _, pod := range pods[1:] {
			s := w.agent.statuses.Get(pod.UID)
			became := cmp.Or(s.Reason, "runs")
			for _, c := range append(s.InitContainerStatuses, s.ContainerStatuses...) {
				if c.RestartCount > 0 {
					became = c.State.Waiting.Reason
				}
			}
			if became == "UnsupportedPodSpec" {
				became = "refused"
				requireNamed(paths[pod.UID], strings.TrimPrefix(s.Message, "Pod was rejected: "))
			}
			require.Equal(t, want[pod.UID], became, "%s: %s", paths[pod.UID], s.Message)
		}
		w.set(good)
		w.sleep(4500 * time.Millisecond)
		require.Len(t, w.running()["a"], 2, "the others, without the longest grace period of pod or deletion, had two seconds")
		w.sleep(10 * time.Second)
		require.Equal(t, map[string][]uint32{"good": {0}}, w.running())
	})
}
