package cluster_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

// idleContainer is an idle container that exits at once on SIGTERM.
const idleContainer = `{image: TESTPROG, name: c}`

// Controllers change pods of one node in parallel. A bystander pod is unaffected.
func TestWorkloads(t *testing.T) {
	onNodes(t, func(t *testing.T, n *node) {
		b := n.newBystander(t)
		n.runParallel(t, nodeTests{
			"rollout":       rollOut,
			"set image":     setImage,
			"daemon set":    daemonSet,
			"cron job":      cronJob,
			"readiness":     readinessGate,
			"delete":        deletions,
			"watch":         watchedPod,
			"events":        podEvents,
			"runtime class": missingRuntimeClass,
		})
		b.requireUndisturbed(t)
	})
}

// A Deployment grows to thirty pods and shrinks again, the node is drained, and it is tainted, in
// any order.
func TestDrainTaintAndScale(t *testing.T) {
	onNodes(t, func(t *testing.T, n *node) {
		b := n.newBystander(t)
		for name, play := range map[string]func(*testing.T, *node){"drain": drain, "taint": taint, "scale": scaleToThirty} {
			t.Run(name, func(t *testing.T) { play(t, n) })
			b.requireUndisturbed(t)
		}
	})
}

func (n *node) deployment(t *testing.T, name string, replicas int) {
	t.Helper()
	n.apply(t, fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s}
spec:
  replicas: %[2]d
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec:
      nodeSelector: {kubernetes.io/hostname: NODE}
      containers: [%[3]s]
`, name, replicas, idleContainer))
}

// podsOfApp returns the pods with a label app.
func (n *node) podsOfApp(t *testing.T, app string) (pods []v1.Pod) {
	t.Helper()
	for _, pod := range n.pods(t) {
		if pod.Labels["app"] == app {
			pods = append(pods, pod)
		}
	}
	return pods
}

// waitRunning waits until a Deployment has want pods, all ready and running, and neither node nor
// cluster has other pods of it.
func (n *node) waitRunning(t *testing.T, app string, want int) {
	t.Helper()
	n.until(t, fmt.Sprintf("%s has %d pods", app, want), func() error {
		ids, pods := n.ids(t), n.podsOfApp(t, app)
		if len(pods) != want {
			return fmt.Errorf("%d pods", len(pods))
		}
		for _, pod := range pods {
			if condition(&pod, v1.PodReady) != "True" || len(pod.Status.ContainerStatuses) != 1 {
				return fmt.Errorf("%s is not ready", pod.Name)
			}
			if err := same(pod.Status.ContainerStatuses[0].ContainerID, "containerd://"+ids[pod.Name+"/c"]); err != nil {
				return fmt.Errorf("%s: %w", pod.Name, err)
			}
		}
		left := want
		for id := range ids {
			if strings.HasPrefix(id, app+"-") {
				left--
			}
		}
		if left != 0 {
			return fmt.Errorf("%d containers do not run: %v", left, ids)
		}
		return nil
	})
}

func scaleToThirty(t *testing.T, n *node) {
	n.deployment(t, "many", 1)
	for _, replicas := range []int{30, 1, 0} {
		n.do(t, "scale", "deployment", "many", fmt.Sprintf("--replicas=%d", replicas))
		n.waitRunning(t, "many", replicas)
	}
}

// A Deployment with a changed image gets new pods.
func rollOut(t *testing.T, n *node) {
	n.deployment(t, "rolls", 3)
	n.waitRunning(t, "rolls", 3)
	before := n.podsOfApp(t, "rolls")
	n.do(t, "set", "image", "deployment/rolls", "c="+n.images.Testprog2)
	n.do(t, "rollout", "status", "deployment/rolls", "--timeout", waitTimeout.String())
	n.waitRunning(t, "rolls", 3)
	for _, pod := range n.podsOfApp(t, "rolls") {
		require.Equal(t, "v2\n", n.exec(t, pod.Name+"/c", "/testprog", "version"))
		for _, was := range before {
			require.NotEqual(t, was.UID, pod.UID)
		}
	}
	n.do(t, "rollout", "undo", "deployment/rolls")
	n.do(t, "rollout", "status", "deployment/rolls", "--timeout", waitTimeout.String())
	n.waitRunning(t, "rolls", 3)
	require.Equal(t, "v1\n", n.exec(t, n.podsOfApp(t, "rolls")[0].Name+"/c", "/testprog", "version"))
}

// A changed image of one container does not replace the pod: the container is replaced in place.
func setImage(t *testing.T, n *node) {
	n.apply(t, podManifest("bare", `
  nodeName: NODE
  containers: [`+idleContainer+`, {image: TESTPROG, name: other}]`))
	n.ready(t, "bare")
	const identity = "{.metadata.uid} {.status.podIP}"
	before, was := n.ids(t), n.get(t, "pod", "bare", identity)
	n.do(t, "set", "image", "pod/bare", "c="+n.images.Testprog2)
	n.waitField(t, "pod", "bare", `{range .status.containerStatuses[*]}{.name} {.image} {.restartCount} {.ready} {end}`,
		fmt.Sprintf("c %s 1 true other %s 0 true ", n.images.Testprog2, n.images.Testprog))
	require.Equal(t, "v2\n", n.exec(t, "bare/c", "/testprog", "version"))
	require.Equal(t, was, n.get(t, "pod", "bare", identity))
	now := n.ids(t)
	require.Equal(t, before["bare/other"], now["bare/other"])
	require.NotEqual(t, before["bare/c"], now["bare/c"])
	n.waitPodEvent(t, "bare", "Killing", "Container c definition changed, will be restarted")
	require.Equal(t, []string{"Killing"}, intersect(n.reasons(t, "bare"), "Killing"))
}

// A DaemonSet's pod is created again after its deletion, and replaced after a change of its
// template.
func daemonSet(t *testing.T, n *node) {
	n.apply(t, `
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: daemon}
spec:
  selector: {matchLabels: {app: daemon}}
  template:
    metadata: {labels: {app: daemon}}
    spec:
      nodeSelector: {kubernetes.io/hostname: NODE}
      containers: [`+idleContainer+`]
`)
	currentPod := func() v1.Pod {
		n.waitField(t, "daemonset", "daemon", "{.status.desiredNumberScheduled}/{.status.numberAvailable}/{.status.updatedNumberScheduled}", "1/1/1")
		n.waitRunning(t, "daemon", 1)
		return n.podsOfApp(t, "daemon")[0]
	}
	first := currentPod()
	n.do(t, "delete", "pod", first.Name)
	second := currentPod()
	require.NotEqual(t, first.UID, second.UID)
	n.do(t, "set", "image", "daemonset/daemon", "c="+n.images.Testprog2)
	n.do(t, "rollout", "status", "daemonset/daemon", "--timeout", waitTimeout.String())
	third := currentPod()
	require.NotEqual(t, second.UID, third.UID)
	require.Equal(t, "v2\n", n.exec(t, third.Name+"/c", "/testprog", "version"))
}

// A CronJob runs on schedule and on demand.
func cronJob(t *testing.T, n *node) {
	n.apply(t, `
apiVersion: batch/v1
kind: CronJob
metadata: {name: cron}
spec:
  schedule: "* * * * *"
  jobTemplate:
    spec:
      template:
        spec:
          nodeSelector: {kubernetes.io/hostname: NODE}
          restartPolicy: Never
          containers: [{name: c, image: BUSYBOX, command: [sh, -c, 'echo done > /dev/termination-log']}]
`)
	n.do(t, "create", "job", "by-hand", "--from=cronjob/cron")
	n.waitField(t, "job", "by-hand", "{.status.succeeded}", "1")
	n.until(t, "the cron job has run", func() error {
		for _, pod := range n.pods(t) {
			if strings.HasPrefix(pod.Labels["job-name"], "cron-") && pod.Status.Phase == v1.PodSucceeded {
				return same("done\n", pod.Status.ContainerStatuses[0].State.Terminated.Message)
			}
		}
		return errors.New(n.do(t, "get", "jobs,pods"))
	})
	n.do(t, "delete", "cronjob", "cron")
}

// A condition of a readiness gate determines Ready and belongs to its writer: status writes of the
// agent do not change it.
func readinessGate(t *testing.T, n *node) {
	n.apply(t, podManifest("gated", `
  nodeName: NODE
  readinessGates: [{conditionType: example.com/open}]
  containers: [`+idleContainer+`]`))
	const ready = `{range .status.conditions[?(@.type=="Ready")]}{.status} {.reason}{end}`
	open := func(status string) {
		n.do(t, "patch", "pod", "gated", "--subresource=status", "-p",
			`{"status":{"conditions":[{"type":"example.com/open","status":"`+status+`","reason":"ByHand"}]}}`)
	}
	n.waitField(t, "pod", "gated", "{.status.containerStatuses[0].ready}", "true")
	n.waitField(t, "pod", "gated", ready, "False ReadinessGatesNotReady")
	open("True")
	n.waitField(t, "pod", "gated", ready, "True ")
	require.NoError(t, n.cri.StopContainer(t.Context(), n.ids(t)["gated/c"], 0))
	n.waitField(t, "pod", "gated", "{.status.containerStatuses[0].restartCount}", "1")
	n.waitField(t, "pod", "gated", ready, "True ")
	require.Equal(t, "True ByHand", n.get(t, "pod", "gated", `{range .status.conditions[?(@.type=="example.com/open")]}{.status} {.reason}{end}`))
	open("False")
	n.waitField(t, "pod", "gated", ready, "False ReadinessGatesNotReady")
	require.Equal(t, "true", n.get(t, "pod", "gated", "{.status.containerStatuses[0].ready}"))
}

// drain evicts all pods except the node's own ones; after uncordon they return.
func drain(t *testing.T, n *node) {
	n.deployment(t, "moves", 3)
	n.waitRunning(t, "moves", 3)
	n.until(t, "the node is drained", func() error { // the scheduler may place a new pod before it sees the cordon
		n.do(t, "drain", n.name, "--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout", waitTimeout.String())
		return listError("pods", n.podsOnNode(t, "app!=bystander"))
	})
	n.until(t, "event NodeNotSchedulable", func() error {
		return same("[NodeNotSchedulable]", fmt.Sprint(intersect(n.nodeEvents(t), "NodeNotSchedulable")))
	})
	n.do(t, "uncordon", n.name)
	n.waitRunning(t, "moves", 3)
	n.until(t, "event NodeSchedulable", func() error {
		return same("[NodeSchedulable]", fmt.Sprint(intersect(n.nodeEvents(t), "NodeSchedulable")))
	})
}

// taint evicts pods without a toleration.
func taint(t *testing.T, n *node) {
	n.deployment(t, "stays", 3)
	n.waitRunning(t, "stays", 3)
	n.do(t, "taint", "node", n.name, "room=3:NoExecute")
	n.until(t, "all pods without the toleration are evicted", func() error { return listError("pods", n.podsOnNode(t, "app!=bystander")) })
	n.do(t, "taint", "node", n.name, "room-")
	n.waitRunning(t, "stays", 3)
}

// podsOnNode returns the pods of the namespace on the node with a label.
func (n *node) podsOnNode(t *testing.T, label string) []string {
	t.Helper()
	return strings.Fields(n.do(t, "get", "pods", "--field-selector=spec.nodeName="+n.name, "-l", label, "-o", "name"))
}

// nodeEvents returns the reasons of the node's events.
func (n *node) nodeEvents(t *testing.T) []string {
	t.Helper()
	return strings.Fields(n.do(t, "get", "events", "--namespace=default", "--field-selector=involvedObject.kind=Node,involvedObject.name="+n.name, "-o", "jsonpath={.items[*].reason}"))
}

// missingRuntimeClass tests a pod whose RuntimeClass is deleted and created again.
func missingRuntimeClass(t *testing.T, n *node) {
	class := `{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: NODE}, handler: runc}`
	n.apply(t, class)
	defer n.do(t, "delete", "runtimeclass", n.name, "--ignore-not-found")
	n.apply(t, podManifest("class", `
  runtimeClassName: NODE
  dnsPolicy: Default
  automountServiceAccountToken: false
  schedulingGates: [{name: example.com/wait}]
  nodeSelector: {kubernetes.io/hostname: NODE}
  containers: [`+idleContainer+`]`))
	n.do(t, "delete", "runtimeclass", n.name)
	n.do(t, "patch", "pod", "class", "--type=json", "-p", `[{"op":"remove","path":"/spec/schedulingGates"}]`)
	n.until(t, "events of class", func() error { // in any order: the scheduler may date its event after the kubelet's
		return same("[FailedCreatePodSandBox Scheduled]", fmt.Sprint(slices.Sorted(slices.Values(n.reasons(t, "class")))))
	})
	n.waitField(t, "pod", "class", "{.status.phase} {.status.containerStatuses[0].state.waiting.reason}", "Pending ContainerCreating")
	n.apply(t, class)
	n.ready(t, "class")
}
