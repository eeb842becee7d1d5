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
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/syncloop/podsource"
)

// secondsFields returns the paths of all fields of seconds below a type, with their bits.
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
			maps.Copy(found, secondsFields(of.Field(i).Type, strings.Trim(path+"."+name, "."))) // embedded fields have no name
		}
	}
	return found
}

// besides is the part of a pod that a field needs, by the field's parent.
var besides = map[string]string{
	"initContainers": `"name": "i", "image": "busybox:1", "restartPolicy": "Always", `, "containers": `"name": "a", "image": "busybox:1", `,
	"livenessProbe": `"exec": {"command": ["true"]}, `, "readinessProbe": `"exec": {"command": ["true"]}, `, "startupProbe": `"exec": {"command": ["true"]}, `,
	"ephemeralContainers": `"name": "e", "image": "busybox:1", `, "tolerations": `"operator": "Exists", `, "volumes": `"name": "v", `, "serviceAccountToken": `"path": "token", `,
}

func podWith(t *testing.T, uid, path string, value int64) *v1.Pod {
	text, outer := fmt.Sprint(value), strings.Split("."+strings.ReplaceAll(path, "[0]", ""), ".")
	for i, step := range slices.Backward(strings.Split(path, ".")) {
		if strings.HasSuffix(step, "[0]") {
			text = "[" + text + "]"
		}
		text = fmt.Sprintf("{%s%q: %s}", besides[outer[i]], outer[i+1], text)
	}
	pod := podOf(types.UID(uid), v1.RestartPolicyAlways, "a")
	require.NoError(t, json.Unmarshal([]byte(text), pod))
	pod.APIVersion, pod.Kind = "v1", "Pod"
	return pod
}

// secondsRows are the outcomes for the largest and the smallest value: the pod runs, stays
// starting, is refused with the field's name, or has this reason in its status. The first matching
// row counts.
var secondsRows = []struct{ field, most, least string }{
	{`^spec\.ephemeralContainers\[0]\.\w+Probe\.(initialDelay|timeout|period|terminationGracePeriod)Seconds$`, "refused", "refused"}, // they have no probes
	{`\.readinessProbe\.terminationGracePeriodSeconds$`, "refused", "refused"},                                                       // readiness ends no container
	{`\.\w+Probe\.(initialDelay|timeout|period|terminationGracePeriod)Seconds$`, "runs", "refused"},
	{`^spec\.(c|initC)ontainers\[0]\.lifecycle\.postStart\.sleep\.seconds$`, "starts", "CrashLoopBackOff"},
	{`\.lifecycle\.postStart\.sleep\.seconds$`, "starts", "runs"}, // ephemeral containers are not restarted
	{`^spec\.terminationGracePeriodSeconds$|\.preStop\.sleep\.seconds$|(^|\.volumeClaimTemplate\.)metadata\.deletionGracePeriodSeconds$`, "runs", "runs"},
	{`^spec\.activeDeadlineSeconds$`, "runs", status.ReasonDeadlineExceeded},
	{`^spec\.tolerations\[0]\.tolerationSeconds$|\.serviceAccountToken\.expirationSeconds$|\.podCertificate\.maxExpirationSeconds$`, "runs", "runs"}, // not counted by the agent
}

// Each field of seconds gets its largest and its smallest value, each in a pod of its own, all at
// the same time. No value is misinterpreted as its opposite, and a pod beside them is not affected.
// Manifests are refused with the field's name or become a pod; an API server may let invalid values
// through. A field that is missing in secondsRows fails the test.
func TestEverySecondsField(t *testing.T) {
	decoder := podsource.Decoder{NodeName: "n", Volumes: append([]string{"ephemeral"}, volumeKinds...), Objects: objectKinds, Check: unsupported}
	pods, paths, want, used := []*v1.Pod{podOf("good", v1.RestartPolicyAlways, "good")}, map[types.UID]string{}, map[types.UID]string{}, map[int]bool{}
	requireNamed := func(t *testing.T, path, refusal string) { // the field or its parent
		require.True(t, strings.HasPrefix(path, strings.Split(refusal, ": ")[0]), "%s: %s", path, refusal)
	}
	for path, bits := range secondsFields(reflect.TypeFor[v1.Pod](), "") {
		row := slices.IndexFunc(secondsRows, func(row struct{ field, most, least string }) bool {
			return regexp.MustCompile(row.field).MatchString(path)
		})
		require.NotEqual(t, -1, row, "no expectation for a pod with %s", path)
		used[row] = true
		most := int64(math.MaxInt64) >> (64 - bits)
		for value, becomes := range map[int64]string{most: secondsRows[row].most, -most - 1: secondsRows[row].least} {
			pod := podWith(t, fmt.Sprint(len(pods)), path, value)
			pods, paths[pod.UID], want[pod.UID] = append(pods, pod), fmt.Sprint(path, ": ", value), becomes
			manifest, err := json.Marshal(pod)
			require.NoError(t, err)
			if _, err = decoder.Decode(manifest, "file:/m"); err != nil {
				requireNamed(t, path, err.Error())
			} else {
				negative := path == "spec.terminationGracePeriodSeconds" || strings.HasSuffix(path, ".tolerationSeconds")
				require.True(t, becomes != "refused" && (value > 0 || negative), "a manifest with %s %d", path, value)
			}
		}
	}
	require.Len(t, used, len(secondsRows), "a row names no existing field")

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
		w.startFor(50 * time.Second)
		for _, pod := range pods[1:] {
			s := w.agent.syncer.Statuses().Get(pod.UID)
			became := cmp.Or(s.Reason, "runs")
			if w.agent.syncer.Workers().State(pod.UID).Call == podworkers.CallSyncPod {
				became = "starts"
			}
			for _, c := range append(s.InitContainerStatuses, s.ContainerStatuses...) {
				if c.RestartCount > 0 {
					became = c.State.Waiting.Reason
				}
			}
			if why, is := strings.CutPrefix(s.Message, "Pod was rejected: "); is {
				became = "refused"
				requireNamed(w.t, paths[pod.UID], why)
			}
			require.Equal(w.t, want[pod.UID], became, "%s: %s", paths[pod.UID], s.Message)
		}
		w.set(pods[0])
		w.Sleep(4500 * time.Millisecond)
		require.Len(w.t, w.Running()["a"], 2, "pods without the longest grace period of pod or deletion had two seconds")
		w.Sleep(10 * time.Second)
		require.Equal(w.t, map[string][]uint32{"good": {0}}, w.Running())
	})
}
