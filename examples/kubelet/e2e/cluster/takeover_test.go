package cluster_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/examples/tools/testbed/tb"
	"github.com/podwright/podwright/examples/tools/testbed/tb/controlplane"
)

var takeovers = flag.Int("takeovers", 3, "number of takeovers by each kubelet in TestTakeover")

// TestTakeover hands a node with pods of all kinds from the upstream kubelet to this one and back,
// for some rounds, with the same root folder, node name and runtime. No container restarts except
// in crashing pods, no ready pod becomes unready, and no volume is unmounted. Starts and stops in
// progress complete, and in the end no remains exist.
func TestTakeover(t *testing.T) {
	upstream := upstreamKubelet(t)
	onRuntimes(t, func(t *testing.T, plane controlplane.Handle, rt tb.Runtime) {
		n := newStoppedNode(t, plane, rt, func(n *node) { n.binary = upstream }, "--make-iptables-util-chains=false", "--sync-frequency=10s")
		tb.MakeCgroups(t, "/podwright-"+n.name)
		n.start(t)
		n.nodeReady(t)
		w := n.watchPods(t)
		h := &handover{node: n}
		n.apply(t, takeoverObjects)
		n.static(t)
		h.waitSettled(t)
		for range *takeovers {
			for _, binary := range []string{"", upstream} {
				h.takeOver(t, binary)
				n.apply(t, strings.ReplaceAll(stayingPod, "NUMBER", fmt.Sprint(h.count)))
				h.waitSettled(t)
			}
		}
		h.takeOver(t, "") // our kubelet cleans up after both
		w.requireUndisturbed(t, func(pod *v1.Pod) bool { return isCalm(pod) && pod.Annotations[v1.MirrorPodAnnotationKey] == "" })
	})
}

func isCalm(pod *v1.Pod) bool { return pod.Labels["calm"] == "yes" }

// handover is a node with two alternating kubelets.
type handover struct {
	*node
	count int // number of takeovers so far
}

// takeOver lets another kubelet take over while pods start and stop. It checks static pods only if
// this kubelet takes over: the upstream kubelet begins with a new, unready status of each.
func (h *handover) takeOver(t *testing.T, binary string) {
	h.count++
	w := h.watchPods(t)
	t.Logf("takeover %d, by %q", h.count, binary)
	names := strings.NewReplacer("NUMBER", fmt.Sprint(h.count))
	h.apply(t, names.Replace(endingPod))
	h.ready(t, names.Replace("ends-NUMBER"))
	ids, mounts, ending := h.calmIDs(t), h.mounts(t), h.get(t, "pod", names.Replace("ends-NUMBER"), "{.metadata.uid}")
	h.do(t, "delete", "pod", names.Replace("ends-NUMBER"), "--wait=false")
	h.apply(t, names.Replace(startingPod))
	time.Sleep(300 * time.Millisecond) // its image is pulled, or its container is created or about to start

	h.stop(t)
	require.Equal(t, ids, h.calmIDs(t), "containers without a kubelet")
	h.binary = binary
	h.start(t)
	h.ready(t, names.Replace("begins-NUMBER"))
	require.EqualValues(t, "0", h.get(t, "pod", names.Replace("begins-NUMBER"), "{.status.containerStatuses[0].restartCount}"))
	h.waitDeleted(t, "pod", names.Replace("ends-NUMBER"))
	time.Sleep(15 * time.Second) // for late effects
	require.Equal(t, ids, h.calmIDs(t))
	now := h.mounts(t)
	for mount := range mounts {
		require.True(t, now[mount] || strings.Contains(mount, ending), "unmounted: %s", mount)
	}
	h.checkFinished(t)
	if binary == "" {
		w.requireUndisturbed(t, isCalm)
	}
}

// waitSettled waits until all pods are in their expected state.
func (h *handover) waitSettled(t *testing.T) {
	h.until(t, "the pods have their final phases", func() error {
		for _, pod := range h.pods(t) {
			want := string(v1.PodRunning)
			if pod.Labels["phase"] != "" {
				want = pod.Labels["phase"]
			}
			if string(pod.Status.Phase) != want || isCalm(&pod) && !isReady(&pod) {
				return fmt.Errorf("%s: %s, ready: %t", pod.Name, pod.Status.Phase, isReady(&pod))
			}
		}
		return nil
	})
	time.Sleep(time.Second) // until the last status is written
}

// checkFinished checks that finished pods were not restarted, and that the crashing pod has
// restarts.
func (h *handover) checkFinished(t *testing.T) {
	for _, pod := range h.pods(t) {
		if pod.Labels["phase"] == string(pod.Status.Phase) && pod.Labels["phase"] != "" {
			require.Zero(t, pod.Status.ContainerStatuses[0].RestartCount, pod.Name)
			require.NotNil(t, pod.Status.ContainerStatuses[0].State.Terminated, pod.Name)
		}
		if pod.Name == "crashes" {
			require.NotZero(t, pod.Status.ContainerStatuses[0].RestartCount, "%+v", pod.Status)
		}
	}
}

func isReady(pod *v1.Pod) bool { return condition(pod, v1.PodReady) == string(v1.ConditionTrue) }

// calmIDs returns the containers of calm pods.
func (h *handover) calmIDs(t *testing.T) map[string]string {
	ids := h.ids(t)
	maps.DeleteFunc(ids, func(name, _ string) bool {
		return strings.HasPrefix(name, "crashes/") || strings.HasPrefix(name, "ends-") || strings.HasPrefix(name, "begins-")
	})
	return ids
}

// mounts returns the mounts of pods, with an identity of each mount.
func (h *handover) mounts(t *testing.T) map[string]bool {
	data, err := os.ReadFile("/proc/self/mountinfo")
	require.NoError(t, err)
	out := map[string]bool{}
	for line := range strings.Lines(string(data)) {
		if fields := strings.Fields(line); strings.HasPrefix(fields[4], h.root+"/pods/") {
			out[fields[0]+" "+fields[4]] = true
		}
	}
	return out
}

// static places manifests of static pods with UIDs.
func (n *node) static(t *testing.T) {
	for i, network := range []string{"false", "true"} {
		text := strings.NewReplacer("NUMBER", fmt.Sprint(i), "NETWORK", network, "NS", n.namespace, "BUSYBOX", n.images.Busybox, "UID", fmt.Sprintf("%s-0000-4000-8000-%012d", n.name[1:], i)).Replace(`
apiVersion: v1
kind: Pod
metadata: {name: static-NUMBER, namespace: NS, uid: UID, labels: {calm: "yes"}}
spec: {hostNetwork: NETWORK, terminationGracePeriodSeconds: 1, containers: [` + probedContainer + `]}
`)
		require.NoError(t, os.WriteFile(filepath.Join(n.manifests, fmt.Sprintf("static-%d.yaml", i)), []byte(text), 0o600))
	}
}

// endingPod uses most of its grace period to exit; startingPod is starting at the takeover;
// stayingPod continues.
var (
	endingPod = podManifest("ends-NUMBER", `
  nodeName: NODE
  terminationGracePeriodSeconds: 25
  containers:
  - {name: c, image: BUSYBOX, command: [sh, -c, 'trap "sleep 12; exit 0" TERM; while :; do sleep 0.1; done']}`)
	startingPod = boundPod("begins-NUMBER", `
  initContainers: [{name: i, image: BUSYBOX, imagePullPolicy: Always, command: ["true"]}]
  containers: [`+runningContainer+`, imagePullPolicy: Always}]`)
	stayingPod = boundPod(`comes-NUMBER, labels: {calm: "yes"}`, `
  initContainers: [{name: i, image: BUSYBOX, command: ["true"]}, {name: side, image: BUSYBOX, restartPolicy: Always, command: [sh, -c, 'trap "exit 0" TERM; while :; do sleep 0.1; done']}]
  volumes: [{name: c, configMap: {name: c}}, {name: m, emptyDir: {medium: Memory}}]
  containers: [`+mountsAll+`]`)
)

const mountsAll = runningContainer + `, volumeMounts: [{name: c, mountPath: /c}, {name: m, mountPath: /m}], readinessProbe: {exec: {command: ["true"]}, periodSeconds: 1, timeoutSeconds: 10}}`

// takeoverObjects are pods of all kinds. Calm pods must not change.
var takeoverObjects = `
apiVersion: v1
kind: ConfigMap
metadata: {name: c}
data: {a: "1", b: "2"}
---
apiVersion: v1
kind: Secret
metadata: {name: s}
stringData: {p: w}
` + kinds(map[string]string{
	"plain":     `{containers: [` + runningContainer + `}]}`,
	"probed":    `{containers: [` + probedContainer + `]}`,
	"http":      `{containers: [{name: c, image: TESTPROG, args: [http, ":8080"], startupProbe: {tcpSocket: {port: 8080}, periodSeconds: 1}, readinessProbe: {httpGet: {port: 8080, path: /healthz}, periodSeconds: 1, timeoutSeconds: 10}, livenessProbe: {httpGet: {port: 8080, path: /healthz}, periodSeconds: 1, timeoutSeconds: 10}}]}`,
	"initdone":  `{initContainers: [{name: i, image: BUSYBOX, command: ["true"]}, {name: j, image: BUSYBOX, command: ["true"]}], containers: [` + runningContainer + `}]}`,
	"sidecar":   `{initContainers: [{name: i, image: BUSYBOX, command: ["true"]}, {name: side, image: BUSYBOX, restartPolicy: Always, command: [sh, -c, 'trap "exit 0" TERM; while :; do sleep 0.1; done'], startupProbe: {exec: {command: ["true"]}, periodSeconds: 1, timeoutSeconds: 10}}], containers: [` + runningContainer + `}]}`,
	"configmap": `{volumes: [{name: c, configMap: {name: c}}, {name: m, emptyDir: {medium: Memory}}], containers: [` + mountsAll + `]}`,
	"secret":    `{volumes: [{name: c, secret: {secretName: s}}, {name: m, emptyDir: {}}], containers: [` + mountsAll + `]}`,
	"projected": `{volumes: [{name: c, projected: {sources: [{serviceAccountToken: {path: t}}, {configMap: {name: c}}, {downwardAPI: {items: [{path: l, fieldRef: {fieldPath: metadata.labels}}]}}]}}, {name: m, downwardAPI: {items: [{path: me, fieldRef: {fieldPath: metadata.name}}]}}], containers: [` + mountsAll + `]}`,
	"hostpath":  `{volumes: [{name: c, hostPath: {path: /etc}}, {name: m, hostPath: {path: /tmp, type: Directory}}], containers: [` + mountsAll + `]}`,
	"subpath":   `{volumes: [{name: c, configMap: {name: c}}, {name: m, emptyDir: {}}], containers: [` + runningContainer + `, volumeMounts: [{name: c, mountPath: /f, subPath: a}, {name: m, mountPath: /m, subPathExpr: "x"}]}]}`,
	"hostnet":   `{hostNetwork: true, hostPID: true, containers: [` + runningContainer + `}]}`,
	"two":       `{shareProcessNamespace: true, containers: [` + runningContainer + `}, {name: d, image: TESTPROG, args: [run]}]}`,
	"limits":    `{containers: [` + runningContainer + `, resources: {limits: {cpu: 100m, memory: 64Mi}}}]}`,
	"user":      `{securityContext: {runAsUser: 1234, fsGroup: 5678}, volumes: [{name: m, emptyDir: {}}], containers: [` + runningContainer + `, volumeMounts: [{name: m, mountPath: /m}]}]}`,
	"hooks":     `{containers: [` + runningContainer + `, lifecycle: {postStart: {exec: {command: ["true"]}}, preStop: {exec: {command: ["true"]}}}}]}`,
	"variables": `{containers: [` + runningContainer + `, envFrom: [{configMapRef: {name: c}}, {secretRef: {name: s}}], env: [{name: X, valueFrom: {fieldRef: {fieldPath: status.podIP}}}]}]}`,
}, `calm: "yes"`) + kinds(map[string]string{
	"succeeded": `{restartPolicy: Never, containers: [{name: c, image: BUSYBOX, command: ["true"]}]}`,
}, `phase: Succeeded`) + kinds(map[string]string{
	"failed": `{restartPolicy: Never, containers: [{name: c, image: BUSYBOX, command: [sh, -c, exit 3]}]}`,
}, `phase: Failed`) + kinds(map[string]string{
	"crashes": `{containers: [{name: c, image: BUSYBOX, command: [sh, -c, 'sleep 1; exit 1']}]}`,
}, `crashes: "yes"`)

func kinds(specs map[string]string, labels string) string {
	var b strings.Builder
	for name, spec := range specs {
		fmt.Fprintf(&b, "---\n{apiVersion: v1, kind: Pod, metadata: {name: %s, labels: {%s}}, spec: {nodeName: NODE, terminationGracePeriodSeconds: 1, %s}\n", name, labels, spec[1:])
	}
	return b.String()
}
