package cluster_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/examples/tools/testbed/tb"
	"github.com/podwright/podwright/examples/tools/testbed/tb/controlplane"
)

// outage is a disturbance between the kubelet and its API server.
type outage struct {
	name string
	// lasts is the minimum duration.
	lasts      time.Duration
	begin, end func(*proxy)
	// round is called about once a second.
	round func(*proxy, int)
}

func requestFault(fault func(http.ResponseWriter, *http.Request) bool) (begin, end func(*proxy)) {
	return func(p *proxy) { p.set(fault); p.cutWatches() }, func(p *proxy) { p.set(nil) }
}

func outages() []outage {
	list := []outage{
		{name: "flapping", lasts: 8 * time.Second, round: func(p *proxy, n int) { p.setDown(n/2%2 == 0) }, end: func(p *proxy) { p.setDown(false) }},
		{name: "cut", lasts: 4 * time.Second, round: func(p *proxy, _ int) { p.cutWatches() }},
		{name: "black", lasts: 10 * time.Second, begin: func(p *proxy) { p.blackhole.Store(true) }, end: func(p *proxy) { p.blackhole.Store(false) }},
	}
	for _, failure := range []struct {
		name  string
		fault func(http.ResponseWriter, *http.Request) bool
	}{
		{"slow", slow(2 * time.Second)},
		{"busy", refusing(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, always)},
		{"failing", refusing(http.StatusInternalServerError, metav1.StatusReasonInternalError, always)},
		{"tooold", refusing(http.StatusGone, metav1.StatusReasonExpired, isWatch)},
	} {
		begin, end := requestFault(failure.fault)
		list = append(list, outage{name: failure.name, lasts: 4 * time.Second, begin: begin, end: end})
	}
	return list
}

// During each outage between the kubelet and its API server pods continue: healthy ones stay ready,
// dead ones and those with a failed probe are restarted, and the end of a finished pod is reported
// once, with the right exit code.
func TestNetworkOutages(t *testing.T) {
	onRuntimes(t, func(t *testing.T, plane controlplane.Handle, rt tb.Runtime) {
		n, p := behindProxy(t, plane, rt)
		w := n.watchPods(t)
		n.apply(t, wellPod)
		n.ready(t, "well")
		before := n.ids(t)["well/c"]
		for _, o := range outages() {
			n.runOutage(t, p, o)
		}
		for _, o := range outages() {
			requireOneExit(t, w, "ends-"+o.name, 7)
		}
		require.Equal(t, before, n.ids(t)["well/c"])
		w.requireUndisturbed(t, func(pod *v1.Pod) bool { return pod.Name == "well" })
	})
}

// runOutage runs pods during an outage.
func (n *node) runOutage(t *testing.T, p *proxy, o outage) {
	ends, dies, sick := "ends-"+o.name, "dies-"+o.name, "sick-"+o.name
	waiting := func(file, then string) string {
		return `command: [sh, -c, 'trap "exit 0" TERM; while ! test -e /h/` + file + `; do sleep 0.1; done; ` + then + `'], image: BUSYBOX, name: c, volumeMounts: [{name: h, mountPath: /h}]`
	}
	pod := func(name, container, rest string) string {
		return "apiVersion: v1\nkind: Pod\nmetadata: {name: " + name + "}\nspec: {nodeName: NODE, " + rest + "containers: [{" + container + "}], volumes: [{name: h, hostPath: {path: " + n.dir + "}}]}\n"
	}
	// The probe of a new container must not fail by the old file before the program has removed it.
	probed := `command: [sh, -c, 'rm -f /h/` + sick + `; touch /begun /h/` + sick + `-begun; trap "exit 0" TERM; while :; do sleep 0.1; done'], image: BUSYBOX, name: c, volumeMounts: [{name: h, mountPath: /h}], ` +
		`livenessProbe: {exec: {command: [sh, -c, '! test -e /begun || ! test -e /h/` + sick + `']}, periodSeconds: 1, timeoutSeconds: 10, failureThreshold: 1}`
	n.apply(t, pod(ends, waiting(ends, "exit 7"), "restartPolicy: Never, ")+"---\n"+pod(dies, waiting(dies, "rm /h/"+dies+"; exit 1"), "")+"---\n"+pod(sick, probed, ""))
	for _, name := range []string{ends, dies, sick} {
		n.ready(t, name)
	}
	n.until(t, "the program with the probe has started", func() error { // so that it does not remove the new file as an old one
		_, err := os.Stat(filepath.Join(n.dir, sick+"-begun"))
		return err
	})
	before := n.ids(t)
	again := func() bool { // dies and sick have new containers
		now := n.ids(t)
		return !slices.ContainsFunc([]string{dies + "/c", sick + "/c"}, func(c string) bool { return now[c] == "" || now[c] == before[c] })
	}
	if o.begin != nil {
		o.begin(p)
	}
	begin := time.Now()
	for _, file := range []string{ends, dies, sick} {
		require.NoError(t, os.WriteFile(filepath.Join(n.dir, file), nil, 0o600))
	}
	restarted := false
	for round := 0; time.Since(begin) < o.lasts || !restarted && time.Since(begin) < waitTimeout; round++ {
		if o.round != nil {
			o.round(p, round)
		}
		time.Sleep(time.Second)
		restarted = restarted || again()
	}
	require.True(t, restarted, "%s: pods with an exit or a failed probe are not restarted during the outage", o.name)
	if o.end != nil {
		o.end(p)
	}
	ended := time.Now()
	n.until(t, o.name+": the API has the exits and restarts", func() error {
		end := n.get(t, "pod", ends, "{.status.phase} {.status.containerStatuses[0].state.terminated.exitCode}")
		restarts := n.get(t, "pod", dies, "{.status.containerStatuses[0].restartCount} {.status.conditions[?(@.type==\"Ready\")].status}")
		probed := n.get(t, "pod", sick, "{.status.containerStatuses[0].restartCount} {.status.conditions[?(@.type==\"Ready\")].status}")
		if end != "Failed 7" || restarts != "1 True" || probed != "1 True" {
			return errors.New(end + ", " + restarts + ", " + probed)
		}
		return nil
	})
	t.Logf("%s: the API had all statuses %s after the outage", o.name, time.Since(ended).Round(100*time.Millisecond))
}

// lostByRuntime reports whether the runtime has no exit code of a container. A start that the
// kubelet's death interrupted has none; containerd 1.6 may report 137 for it, without a start
// time. A container that ends during a restart of the runtime may get 255 and Unknown.
func lostByRuntime(end *v1.ContainerStateTerminated) bool {
	return end.Reason == "StartError" || end.Reason == "Unknown" && end.ExitCode == 255 ||
		end.Reason == "Error" && end.ExitCode == 137 && end.StartedAt.IsZero()
}

// requireOneExit fails if a pod's reported end changed while the pod existed, or has another exit
// code.
func requireOneExit(t *testing.T, w *watcher, name string, code int) {
	t.Helper()
	failed := func(pod *v1.Pod) bool { return pod.Status.Phase == v1.PodFailed }
	require.Eventually(t, func() bool { return slices.ContainsFunc(w.versions(name), failed) }, waitTimeout, 50*time.Millisecond, "the watch shows the end of %s", name)
	exits := map[string]bool{}
	for _, pod := range w.versions(name) {
		if failed(pod) {
			require.NotEmpty(t, pod.Status.ContainerStatuses, "%s: %+v", name, pod.Status)
			end := pod.Status.ContainerStatuses[0].State.Terminated
			require.NotNil(t, end, "%s: %+v", name, pod.Status)
			if !lostByRuntime(end) {
				require.EqualValues(t, code, end.ExitCode, name)
			}
			text, err := json.Marshal(pod.Status.ContainerStatuses)
			require.NoError(t, err)
			exits[string(text)] = true
		}
	}
	require.Len(t, exits, 1, "reported exits of %s: %v", name, exits)
}
