package cluster_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cri/cgroups"
)

func (n *node) resize(t *testing.T, pod, resources string) {
	t.Helper()
	n.do(t, "patch", "pod", pod, "--subresource", "resize", "--patch", `{"spec":{"containers":[{"name":"c","resources":`+resources+`}]}}`)
}

// waitConditionReason waits until a condition of a pod has the reason want; "" means no such
// condition.
func (n *node) waitConditionReason(t *testing.T, pod string, kind v1.PodConditionType, want string) {
	t.Helper()
	n.waitField(t, "pod", pod, fmt.Sprintf(`{.status.conditions[?(@.type==%q)].reason}`, kind), want)
}

// waitCPU waits until a container has milli thousandths of a CPU in its cgroup and in the status.
func (n *node) waitCPU(t *testing.T, pod string, milli int64) {
	t.Helper()
	n.waitField(t, "pod", pod, "{.status.containerStatuses[0].allocatedResources.cpu}", fmt.Sprintf("%dm", milli))
	n.until(t, pod+" has its CPU shares", func() error {
		return same(fmt.Sprint(cgroups.Shares(milli)), strings.TrimSpace(n.exec(t, pod+"/c", "cat", "/sys/fs/cgroup/cpu/cpu.shares")))
	})
	n.waitConditionReason(t, pod, v1.PodResizeInProgress, "")
}

// A resize has four results, without any restart: it is granted and completed; it does not fit and
// waits for the end of another pod; it can never be granted; it is granted, and cannot be applied
// for a while.
func TestResize(t *testing.T) {
	onNodes(t, func(t *testing.T, n *node) {
		n.apply(t, podManifest("grows", `
  nodeName: NODE
  containers: [`+runningContainer+`, resources: {requests: {cpu: 150m}}}]`)+podManifest("ends", `
  nodeName: NODE
  restartPolicy: Never
  containers: [{name: c, image: BUSYBOX, command: [sh, -c, 'while ! test -e /h/end; do sleep 0.1; done'], resources: {requests: {cpu: 700m}}, volumeMounts: [{name: h, mountPath: /h}]}]
  volumes: [{name: h, hostPath: {path: `+n.dir+`}}]`)+podManifest("full", `
  nodeName: NODE
  containers: [{name: c, image: BUSYBOX, command: [sh, -c, 'x=$(head -c 40000000 /dev/zero | tr "\0" a); trap "exit 0" TERM; while :; do sleep 0.1; done'], resources: {requests: {memory: 10Mi}, limits: {memory: 200Mi}}}]`)+podManifest("whole", `
  nodeName: NODE
  resources: {requests: {cpu: 100m, memory: 64Mi}, limits: {cpu: 200m, memory: 128Mi}}
  containers: [`+runningContainer+`}]`)+podManifest("begins", `
  nodeName: NODE
  initContainers: [`+strings.Replace(runningContainer, "name: c", "name: i", 1)+`, resources: {requests: {cpu: 100m}}}]
  containers: [`+runningContainer+`}]`))
		for _, pod := range []string{"grows", "ends", "full", "whole"} {
			n.ready(t, pod)
		}
		n.waitField(t, "pod", "begins", "{.status.initContainerStatuses[0].started}", "true")
		before := n.ids(t)

		n.resize(t, "grows", `{"requests":{"cpu":"250m"}}`)
		n.waitCPU(t, "grows", 250)
		n.until(t, "events", func() error {
			return same("[ResizeStarted ResizeCompleted]", fmt.Sprint(intersect(n.reasons(t, "grows"), "ResizeStarted", "ResizeCompleted")))
		})

		free := 1000 * int64(len(strings.Fields(n.cpus(t))))
		n.resize(t, "grows", fmt.Sprintf(`{"requests":{"cpu":"%dm"}}`, free-500))
		n.waitConditionReason(t, "grows", v1.PodResizePending, v1.PodReasonDeferred)
		n.kill(t)
		n.start(t)
		time.Sleep(5 * time.Second)
		n.waitConditionReason(t, "grows", v1.PodResizePending, v1.PodReasonDeferred)
		n.waitCPU(t, "grows", 250)
		require.NoError(t, os.WriteFile(filepath.Join(n.dir, "end"), nil, 0o600))
		n.waitConditionReason(t, "grows", v1.PodResizePending, "")
		n.waitCPU(t, "grows", free-500)

		n.resize(t, "full", `{"limits":{"memory":"100E"}}`) // exceeds int64
		n.waitConditionReason(t, "full", v1.PodResizePending, v1.PodReasonInfeasible)
		n.until(t, "event ResizeInfeasible", func() error {
			return same("[ResizeInfeasible]", fmt.Sprint(intersect(n.reasons(t, "full"), "ResizeInfeasible", "ResizeStarted")))
		})
		n.resize(t, "full", `{"limits":{"memory":"20Mi"}}`)
		n.waitConditionReason(t, "full", v1.PodResizePending, "")
		n.waitConditionReason(t, "full", v1.PodResizeInProgress, v1.PodReasonError)
		n.until(t, "event ResizeError", func() error { // one for each usage that an attempt finds
			return same("[ResizeError]", fmt.Sprint(slices.Compact(intersect(n.reasons(t, "full"), "ResizeError"))))
		})
		n.resize(t, "full", `{"limits":{"memory":"150Mi"}}`)
		n.waitConditionReason(t, "full", v1.PodResizeInProgress, "")

		n.do(t, "patch", "pod", "whole", "--subresource", "resize", "--patch", `{"spec":{"resources":{"requests":{"cpu":"150m"},"limits":{"cpu":"300m","memory":"160Mi"}}}}`)
		n.waitField(t, "pod", "whole", "{.status.resources.limits.cpu} {.status.resources.limits.memory} {.status.allocatedResources.cpu}", "300m 160Mi 150m")
		n.waitConditionReason(t, "whole", v1.PodResizeInProgress, "")
		require.Equal(t, fmt.Sprint(cgroups.Shares(150))+" 30000 "+fmt.Sprint(160<<20), n.podCgroup(t, "whole"))

		n.do(t, "patch", "pod", "begins", "--subresource", "resize", "--patch", `{"spec":{"initContainers":[{"name":"i","resources":{"requests":{"cpu":"150m"}}}]}}`)
		n.waitField(t, "pod", "begins", "{.status.initContainerStatuses[0].allocatedResources.cpu}", "150m")
		n.waitConditionReason(t, "begins", v1.PodResizeInProgress, "")

		delete(before, "ends/c")
		require.Equal(t, before, n.ids(t))
	})
}

// podCgroup returns the limits of a Burstable pod's cgroup: shares, quota, and memory.
func (n *node) podCgroup(t *testing.T, pod string) string {
	t.Helper()
	var values []string
	for _, file := range []string{"cpu/@/cpu.shares", "cpu/@/cpu.cfs_quota_us", "memory/@/memory.limit_in_bytes"} {
		at := "podwright-" + n.name + "/kubepods/burstable/pod" + n.get(t, "pod", pod, "{.metadata.uid}")
		text, err := os.ReadFile("/sys/fs/cgroup/" + strings.Replace(file, "@", at, 1))
		require.NoError(t, err)
		values = append(values, strings.TrimSpace(string(text)))
	}
	return strings.Join(values, " ")
}

// cpus returns one word for each CPU of the node.
func (n *node) cpus(t *testing.T) string {
	t.Helper()
	var count int
	_, err := fmt.Sscan(n.get(t, "node", n.name, "{.status.allocatable.cpu}"), &count)
	require.NoError(t, err)
	return strings.Repeat("cpu ", count)
}
