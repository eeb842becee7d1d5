package cluster_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

// kubectl get -w shows each phase, condition and state of a pod in order and only once.
func watchedPod(t *testing.T, n *node) {
	n.apply(t, podManifest("watched, labels: {app: watched}", `
  restartPolicy: Never
  schedulingGates: [{name: example.com/wait}]
  nodeSelector: {kubernetes.io/hostname: NODE}
  initContainers: [{name: i, image: BUSYBOX, command: [sleep, "1"]}]
  containers: [{name: c, image: TESTPROG, args: [exit, "0", 10s]}]`))
	ungated, deleted := false, false
	var phases, scheduled, ready, inits, containers []string
	n.watch(t, "watched", func(pod *v1.Pod) {
		phases = append(phases, string(pod.Status.Phase))
		scheduled = append(scheduled, condition(pod, v1.PodScheduled))
		ready = append(ready, condition(pod, v1.PodReady))
		inits = append(inits, stateOf(pod.Status.InitContainerStatuses))
		containers = append(containers, stateOf(pod.Status.ContainerStatuses))
		if !ungated {
			ungated = true
			n.do(t, "patch", "pod", "watched", "--type=json", "-p", `[{"op":"remove","path":"/spec/schedulingGates"}]`)
		}
		if !deleted && pod.Status.Phase == v1.PodSucceeded {
			deleted = true
			n.do(t, "delete", "pod", "watched", "--wait=false")
		}
	})
	require.Equal(t, []string{"Pending", "Running", "Succeeded"}, slices.Compact(phases))
	require.Equal(t, []string{"False", "True"}, slices.Compact(scheduled))
	require.Equal(t, []string{"", "False", "True", "False"}, slices.Compact(ready))
	require.Equal(t, []string{"", "waiting", "running", "terminated"}, slices.Compact(containers))
	order := []string{"", "waiting", "running", "terminated"}
	require.Equal(t, intersect(order, inits...), slices.Compact(inits), "fast states may be missed, but the order is fixed")
	require.Contains(t, inits, "terminated")
}

func condition(pod *v1.Pod, kind v1.PodConditionType) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == kind {
			return string(c.Status)
		}
	}
	return ""
}

func stateOf(statuses []v1.ContainerStatus) string {
	if len(statuses) == 0 {
		return ""
	}
	switch s := statuses[0].State; {
	case s.Running != nil:
		return "running"
	case s.Terminated != nil:
		return "terminated"
	}
	return "waiting"
}

// watch calls observe for each version of the pod with a label app that kubectl get -w shows, until
// its deletion.
func (n *node) watch(t *testing.T, app string, observe func(*v1.Pod)) {
	t.Helper()
	cmd := n.command("get", "pods", "-l", "app="+app, "-w", "--output-watch-events", "-o", "json")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	end := time.AfterFunc(waitTimeout, func() { _ = cmd.Process.Kill() })
	defer func() {
		end.Stop()
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed
	}()
	for stream := json.NewDecoder(out); ; {
		var event struct {
			Type   string
			Object v1.Pod
		}
		require.NoError(t, stream.Decode(&event))
		if event.Type == "DELETED" {
			return
		}
		observe(&event.Object)
	}
}

// kubectl describe shows the right events of pods that run, that cannot run, and that end.
func podEvents(t *testing.T, n *node) {
	volumes := filepath.Join(n.dir, "events")
	require.NoError(t, os.Mkdir(volumes, 0o755))
	require.NoError(t, os.Symlink("/etc", filepath.Join(volumes, "out")))
	const mounts = `{name: c, image: TESTPROG, volumeMounts: [{name: v, mountPath: /v}]}`
	all := []struct{ name, container, volume, events, state string }{
		{"fine", mounts, "emptyDir: {}", "Pulled Created Started", ""},
		{"no-image", `{name: c, image: "` + n.images.Registry + `/no/such:v1"}`, "emptyDir: {}", "Pulling Failed Failed BackOff Failed", "Pending ImagePullBackOff"},
		{"crashes", `{name: c, image: TESTPROG, args: [exit, "3"]}`, "emptyDir: {}", "Pulled Created Started BackOff", ""},
		{"no-folder", mounts, "hostPath: {path: " + volumes + "/missing, type: Directory}", "FailedMount", "Pending ContainerCreating"},
		{"no-config-map", mounts, "configMap: {name: missing}", "FailedMount", "Pending ContainerCreating"},
		{
			"leaves-volume", `{name: c, image: TESTPROG, volumeMounts: [{name: v, mountPath: /v, subPath: out/passwd}]}`, "hostPath: {path: " + volumes + "}",
			"Pulled Failed", "Pending CreateContainerConfigError",
		},
		{"below-a-file", `{name: c, image: TESTPROG, volumeMounts: [{name: v, mountPath: /testprog/v}]}`, "emptyDir: {}", "Pulled Created Failed BackOff", ""},
		{"git", mounts, "gitRepo: {repository: 'https://example.com/x.git'}", "FailedMount", "Pending ContainerCreating"},
		{"flex", mounts, "flexVolume: {driver: example.com/x}", "FailedMount", "Pending ContainerCreating"},
		{
			"elsewhere", `{name: c, image: TESTPROG, ports: [{containerPort: 80}]}`, "emptyDir: {}\n  nodeSelector: {example.com/room: '3'}",
			"NodeAffinity", "Failed NodeAffinity",
		},
	}
	for _, pod := range all {
		n.apply(t, podManifest(pod.name, `
  nodeName: NODE
  dnsPolicy: Default
  automountServiceAccountToken: false # a slow server would cause an event
  containers: [`+pod.container+`]
  volumes:
  - name: v
    `+pod.volume))
	}
	for _, pod := range all {
		if pod.name == "no-config-map" { // a slow server causes another message, and so another event
			n.until(t, "events of "+pod.name, func() error { return same("["+pod.events+"]", fmt.Sprint(slices.Compact(n.reasons(t, pod.name)))) })
			continue
		}
		n.waitEvents(t, pod.name, strings.Fields(pod.events)...)
	}
	for _, pod := range all {
		if pod.state != "" {
			n.waitField(t, "pod", pod.name, "{.status.phase} {.status.reason}{.status.containerStatuses[0].state.waiting.reason}", pod.state)
		}
	}
	n.waitField(t, "pod", "crashes", "{.status.phase} {.status.containerStatuses[0].lastState.terminated.exitCode}", "Running 3")
	require.Contains(t, n.do(t, "describe", "pod", "no-image"), "Back-off pulling image")
	n.waitPodEvent(t, "no-config-map", "FailedMount", `(?i)configmap.*missing.*not found`)
	require.Regexp(t, `(?i)FailedMount.*configmap.*missing.*not found`, n.do(t, "describe", "pod", "no-config-map"))

	n.do(t, "delete", "pod", "fine")
	n.waitEvents(t, "fine", "Pulled", "Created", "Started", "Killing")
}

// waitEvents waits until the events about a pod have exactly these reasons, in this order.
func (n *node) waitEvents(t *testing.T, pod string, reasons ...string) {
	t.Helper()
	n.until(t, "events of "+pod, func() error { return same(fmt.Sprint(reasons), fmt.Sprint(n.reasons(t, pod))) })
}

// reasons returns the reasons of a pod's events.
func (n *node) reasons(t *testing.T, pod string) (reasons []string) {
	t.Helper()
	for _, e := range n.events(t, pod) {
		reasons = append(reasons, e.Reason)
	}
	return reasons
}

// events returns a pod's events, ordered by their first occurrence, which is part of their names.
func (n *node) events(t *testing.T, pod string) []v1.Event {
	t.Helper()
	var list v1.EventList
	_, err := n.reader.read("/api/v1/namespaces/"+n.namespace+"/events?fieldSelector=involvedObject.name%3D"+pod, &list)
	require.NoError(t, err)
	slices.SortFunc(list.Items, func(a, b v1.Event) int { return strings.Compare(a.Name, b.Name) })
	return list.Items
}

// intersect returns the elements of list that are in some.
func intersect(list []string, some ...string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return !slices.Contains(some, s) })
}

// Pods are deleted in all supported ways.
func deletions(t *testing.T, n *node) {
	ended := filepath.Join(n.dir, "ended")
	const ignores = `{name: c, image: TESTPROG, args: [ignore]}`
	for name, container := range map[string]string{
		"short": ignores, "none": ignores, "forced": ignores, "shortened": ignores,
		"long": `{name: c, image: BUSYBOX, command: [sh, -c, 'trap "sleep 3; touch /h/ended; exit 0" TERM; while :; do sleep 0.1; done'], volumeMounts: [{name: h, mountPath: /h}]}`,
	} {
		n.apply(t, podManifest(name, `
  nodeName: NODE
  terminationGracePeriodSeconds: `+map[bool]string{true: "2", false: "3600"}[name == "forced"]+`
  containers: [`+container+`]
  volumes: [{name: h, hostPath: {path: `+n.dir+`}}]`))
	}
	for _, name := range []string{"short", "none", "forced", "shortened", "long"} {
		n.ready(t, name)
	}
	n.do(t, "delete", "pod", "shortened", "--grace-period=3000", "--wait=false")
	begin := time.Now()
	n.do(t, "delete", "pod", "long", "--grace-period=3000", "--wait=false")
	n.do(t, "delete", "pod", "short", "--grace-period=2", "--wait=false")
	n.do(t, "delete", "pod", "none", "--grace-period=0", "--wait=false")
	n.do(t, "delete", "pod", "forced", "--grace-period=0", "--force")
	require.Empty(t, n.get(t, "pod", "forced", "{.metadata.name}"), "the API object is deleted at once")
	n.waitDeleted(t, "pod", "none")
	n.waitDeleted(t, "pod", "short")
	require.GreaterOrEqual(t, time.Since(begin), 2*time.Second, "the grace period is kept")
	n.waitDeleted(t, "pod", "long")
	require.FileExists(t, ended, "the program finished within its grace period")
	require.NotEmpty(t, n.ids(t)["shortened/c"])
	n.do(t, "delete", "pod", "shortened", "--grace-period=1")
	for _, name := range []string{"short", "none", "forced", "shortened", "long"} {
		n.until(t, "containers are removed: "+name, func() error { return same("", n.ids(t)[name+"/c"]) })
	}
}
