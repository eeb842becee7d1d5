package cluster_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/examples/tools/testbed/tb"
	"github.com/podwright/podwright/examples/tools/testbed/tb/controlplane"
)

// Volumes work with the controllers of a real cluster and real drivers. Independent objects are
// applied together; disturbances come last.
func TestVolumes(t *testing.T) {
	onRuntimes(t, func(t *testing.T, plane controlplane.Handle, rt tb.Runtime) {
		s := newStorage(t, plane, rt)
		s.prepareLost(t)
		s.prepareBundles(t)
		s.unattached.Store("unattached", true)
		s.applyStorage(t, allObjects())
		for _, scenario := range []struct {
			name string
			test func(*testing.T, *storage)
		}{
			{"unusable claims", testClaimFaults},
			{"ephemeral", testEphemeral},
			{"device", testDevice},
			{"one pod only", testOnePodOnly},
			{"expansion", testExpansion},
			{"inline", testInline},
			{"tokens", testTokens},
			{"trust bundles", testTrustBundles},
			{"fsGroup", testFSGroup},
			{"two names", testTwoNames},
			{"StatefulSet", testStatefulSet},
			{"not attached", testNotAttached},
			{"slow unmount", testSlowUnmount},
			{"restarts", testRestarts},
			{"removal", testEndOfVolumes},
		} {
			t.Run(scenario.name, func(t *testing.T) {
				begin := time.Now()
				scenario.test(t, s)
				t.Logf("took %v", time.Since(begin).Round(100*time.Millisecond))
			})
		}
		require.NoError(t, s.violationError())
	})
}

// volumePod returns a running pod that is bound to the node.
func volumePod(name, mounts, volumes string) string {
	return podManifest(name, "\n  nodeName: NODE\n  containers: ["+runningContainer+", "+mounts+"}]\n  volumes: ["+volumes+"]")
}

// claimPod returns a pod with the claim of the same name at /v.
func claimPod(name string) string {
	return volumePod(name, "volumeMounts: [{name: v, mountPath: /v}]", "{name: v, persistentVolumeClaim: {claimName: "+name+"}}")
}

// claim returns a claim of 4 MiB. more may set its class, which selects when the volume is created.
func claim(name, mode, more string) string {
	return "\n---\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: " + name + "}\nspec: {" + more + "accessModes: [" + mode + "], resources: {requests: {storage: 4Mi}}}\n"
}

// ephemeral returns a pod with an ephemeral volume.
func ephemeral(name string) string {
	return volumePod(name, "volumeMounts: [{name: v, mountPath: /v}]",
		"{name: v, ephemeral: {volumeClaimTemplate: {spec: {"+immediate+"accessModes: [ReadWriteOnce], resources: {requests: {storage: 4Mi}}}}}}")
}

const immediate = "storageClassName: NODE-now, "

// allObjects returns the objects that are applied together.
func allObjects() string {
	inline := "csi: {driver: INLINE, volumeAttributes: {colour: red}}"
	return `
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {clusterIP: None, selector: {app: web}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: web}
spec:
  serviceName: web
  replicas: 2
  podManagementPolicy: Parallel
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      nodeSelector: {kubernetes.io/hostname: NODE}
      containers: [` + runningContainer + `, volumeMounts: [{name: data, mountPath: /v}]}]
  volumeClaimTemplates: [{metadata: {name: data}, spec: {storageClassName: NODE-later, accessModes: [ReadWriteOnce], resources: {requests: {storage: 4Mi}}}}]
` +
		ephemeral("eph") +
		claim("raw", "ReadWriteOnce", immediate+"volumeMode: Block, ") +
		volumePod("raw", "volumeDevices: [{name: v, devicePath: /dev/xvda}]", "{name: v, persistentVolumeClaim: {claimName: raw}}") +
		claim("wrong", "ReadWriteOnce", immediate+"volumeMode: Block, ") + claimPod("wrong") +
		claim("single", "ReadWriteOncePod", immediate) + claimPod("single") +
		claim("grows", "ReadWriteOnce", immediate) + claimPod("grows") +
		claim("toolarge", "ReadWriteOnce", immediate) + claimPod("toolarge") +
		volumePod("inline", "volumeMounts: [{name: v, mountPath: /v}]", "{name: v, "+inline+"}") +
		volumePod("tokens", "volumeMounts: [{name: v, mountPath: /v}]", "{name: v, projected: {sources: [{serviceAccountToken: {path: token, audience: vault, expirationSeconds: 600}}]}}") +
		bundlePods() +
		claim("grouped", "ReadWriteOnce", immediate) +
		volumePod("grouped", "volumeMounts: [{name: v, mountPath: /v}, {name: i, mountPath: /i}]", "{name: v, persistentVolumeClaim: {claimName: grouped}}, {name: i, "+inline+"}") +
		"  securityContext: {fsGroup: 3000}\n" +
		claim("twice", "ReadWriteOnce", immediate) +
		volumePod("twice", "volumeMounts: [{name: a, mountPath: /a}, {name: b, mountPath: /b}]", "{name: a, persistentVolumeClaim: {claimName: twice}}, {name: b, persistentVolumeClaim: {claimName: twice}}") +
		claimPod("nowhere") +
		claim("classless", "ReadWriteOnce", "storageClassName: NODE-missing, ") + claimPod("classless") +
		claimPod("lost") +
		remoteClaim() + claimPod("elsewhere") +
		claim("unattached", "ReadWriteOnce", immediate) + claimPod("unattached") +
		claim("slow", "ReadWriteOnce", immediate) + claimPod("slow") +
		claim("stays", "ReadWriteOnce", immediate) + claimPod("stays")
}

// handle returns the handle of a claim's volume.
func (s *storage) handle(t testing.TB, claim string) string {
	t.Helper()
	uid := s.get(t, "pvc", claim, "{.metadata.uid}")
	require.NotEmpty(t, uid)
	return uid
}

// waitEventText waits for an event of a pod with a reason and a message.
func (s *storage) waitEventText(t *testing.T, kind, name, reason, message string) {
	t.Helper()
	s.waitEvent(t, kind, name, reason, regexp.QuoteMeta(message))
}

// requireWaiting checks that a pod has not started. Its first status may be written after its
// events.
func (s *storage) requireWaiting(t *testing.T, pod string) {
	t.Helper()
	s.waitField(t, "pod", pod, "{.status.phase} {.status.containerStatuses[0].state.waiting.reason}", "Pending ContainerCreating")
	require.NotContains(t, s.ids(t), pod+"/c")
}

// callsAfter returns an error unless the driver's log, after a number of lines, has these calls for
// a volume in this order.
func (s *storage) callsAfter(lines int, handle string, methods ...string) error {
	log := s.driver.Log()[lines:]
	rest := log
	for _, method := range methods {
		i := slices.Index(rest, method+" "+handle)
		if i < 0 {
			return fmt.Errorf("no %s of %s in order in %q", method, handle, slices.DeleteFunc(slices.Clone(log), func(l string) bool { return !strings.HasSuffix(l, handle) }))
		}
		rest = rest[i+1:]
	}
	return nil
}

// The claim of each pod of a set is bound, attached, staged and published. A new pod of the same
// name finds the old content, also after the volume was detached from the node.
func testStatefulSet(t *testing.T, s *storage) {
	pods := []string{"web-0", "web-1"}
	handles := map[string]string{}
	for _, pod := range pods {
		s.ready(t, pod)
		handles[pod] = s.handle(t, "data-"+pod)
		require.Equal(t, "Bound", s.get(t, "pvc", "data-"+pod, "{.status.phase}"))
		require.NoError(t, s.callsAfter(0, handles[pod], "ControllerPublishVolume", "NodeStageVolume", "NodePublishVolume"))
		inUse, attached, err := s.nodeState(t.Context(), handles[pod])
		require.NoError(t, err)
		require.True(t, inUse && attached)
		s.exec(t, pod+"/c", "sh", "-c", "echo of "+pod+" > /v/f")
	}
	uid := s.get(t, "pod", "web-0", "{.metadata.uid}")
	s.do(t, "delete", "pod", "web-0", "--wait=false")
	s.waitMatch(t, "pod", "web-0", "{.metadata.uid}", func(now string) bool { return now != "" && now != uid })
	s.ready(t, "web-0")
	require.Equal(t, "of web-0\n", s.exec(t, "web-0/c", "cat", "/v/f"))

	before := len(s.driver.Log())
	s.do(t, "scale", "statefulset", "web", "--replicas=0")
	s.until(t, "both volumes are detached", func() error {
		var errs []error
		for _, pod := range pods {
			errs = append(errs, s.callsAfter(before, handles[pod], "NodeUnpublishVolume", "NodeUnstageVolume", "ControllerUnpublishVolume"))
		}
		return errors.Join(errs...)
	})
	before = len(s.driver.Log())
	s.do(t, "scale", "statefulset", "web", "--replicas=2")
	for _, pod := range pods {
		s.until(t, pod+"'s volume is attached and mounted again", func() error {
			return s.callsAfter(before, handles[pod], "ControllerPublishVolume", "NodeStageVolume", "NodePublishVolume")
		})
		s.ready(t, pod)
		require.Equal(t, "of "+pod+"\n", s.exec(t, pod+"/c", "cat", "/v/f"))
	}
}

// The claim of an ephemeral volume is created and removed with its pod. V31: an existing claim of
// that name with another owner is not used.
func testEphemeral(t *testing.T, s *storage) {
	s.ready(t, "eph")
	require.Equal(t, "eph", s.get(t, "pvc", "eph-v", "{.metadata.ownerReferences[0].name}"))
	s.exec(t, "eph/c", "touch", "/v/f")
	s.apply(t, claim("thief-v", "ReadWriteOnce", immediate)+ephemeral("thief"))
	s.waitEventText(t, "Pod", "thief", "FailedMount", "not owned by the pod")
	s.requireWaiting(t, "thief")
	// The scheduler cannot place pods on a node with such a pod.
	s.do(t, "delete", "pod", "thief", "eph", "--wait=false")
	s.waitDeleted(t, "pod", "thief")
	s.waitDeleted(t, "pod", "eph")
	s.waitDeleted(t, "pvc", "eph-v")
}

// A block volume is a device in the container. V33: it is not a folder.
func testDevice(t *testing.T, s *storage) {
	s.ready(t, "raw")
	require.Equal(t, "block special file\n", s.exec(t, "raw/c", "stat", "-c", "%F", "/dev/xvda"))
	s.exec(t, "raw/c", "sh", "-c", "echo of raw > /tmp/f && dd if=/tmp/f of=/dev/xvda bs=512 count=1 conv=sync,fsync")
	data, err := os.ReadFile(s.driver.Data + "/" + s.handle(t, "raw"))
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(data), "of raw\n"), "the data is in the volume")
	s.waitEventText(t, "Pod", "raw", "SuccessfulMountVolume", "pvc-")
	s.waitEventText(t, "Pod", "wrong", "FailedMount", "volumeMode Block")
	s.requireWaiting(t, "wrong")
	require.Error(t, s.callsAfter(0, s.handle(t, "wrong"), "begin NodeStageVolume"))
}

// V27: a ReadWriteOncePod claim keeps a second pod waiting, with an event that names the first pod.
func testOnePodOnly(t *testing.T, s *storage) {
	s.ready(t, "single")
	s.apply(t, strings.ReplaceAll(claimPod("single"), "metadata: {name: single}", "metadata: {name: second}"))
	s.waitEventText(t, "Pod", "second", "FailedMount", s.namespace+"/single")
	s.requireWaiting(t, "second")
	s.do(t, "delete", "pod", "single", "--wait=false")
	s.ready(t, "second")
	s.waitDeleted(t, "pod", "single")
}

// V24: a driver receives pod info and tokens of pods with inline volumes. Tokens are renewed before
// they expire.
func testInline(t *testing.T, s *storage) {
	s.ready(t, "inline")
	uid := s.get(t, "pod", "inline", "{.metadata.uid}")
	require.Equal(t, "inline "+s.namespace+" "+uid+" default true red", s.exec(t, "inline/c", "sh", "-c",
		"cd /v; echo -n $(cat pod.name) $(cat pod.namespace) $(cat pod.uid) $(cat serviceAccount.name) $(cat ephemeral) $(cat colour)"))
	token := func() string {
		var tokens map[string]struct{ Token string }
		text := s.exec(t, "inline/c", "cat", "/v/serviceAccount.tokens")
		if err := json.Unmarshal([]byte(text), &tokens); err != nil {
			return "" // while it is being written
		}
		return tokens["bank"].Token
	}
	first := token()
	s.authenticates(t, first, "bank")
	s.until(t, "the driver receives a new token", func() error {
		if now := token(); now == "" || now == first {
			return errors.New("it has the first token")
		}
		return nil
	})
	s.authenticates(t, token(), "bank")
}

// authenticates checks a token with a TokenReview of the API server.
func (s *storage) authenticates(t *testing.T, token, audience string) {
	t.Helper()
	out, err := s.run([]byte(`{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview","spec":{"token":"`+token+`","audiences":["`+audience+`"]}}`),
		"create", "-f", "-", "-o", "jsonpath={.status.authenticated} {.status.user.username}")
	require.NoError(t, err)
	require.Equal(t, "true system:serviceaccount:"+s.namespace+":default", out)
}

// A token is replaced in the running container before it expires.
func testTokens(t *testing.T, s *storage) {
	s.ready(t, "tokens")
	id, first := s.ids(t)["tokens/c"], s.exec(t, "tokens/c", "cat", "/v/token")
	s.authenticates(t, first, "vault")
	var second string
	s.until(t, "the container has a new token", func() error {
		if second = s.exec(t, "tokens/c", "cat", "/v/token"); second == first {
			return errors.New("it is the first token")
		}
		return nil
	})
	s.authenticates(t, second, "vault")
	require.Equal(t, id, s.ids(t)["tokens/c"])
}

// The agent changes a volume's group to the pod's fsGroup unless the CSIDriver object forbids it.
func testFSGroup(t *testing.T, s *storage) {
	s.ready(t, "grouped")
	require.Equal(t, "3000 0", s.exec(t, "grouped/c", "sh", "-c", "echo -n $(stat -c %g /v) $(stat -c %g /i)"))
	require.Equal(t, "0", s.exec(t, "stays/c", "sh", "-c", "echo -n $(stat -c %g /v)"))
}

// V26: one claim under two names is one volume.
func testTwoNames(t *testing.T, s *storage) {
	s.ready(t, "twice")
	s.exec(t, "twice/c", "touch", "/a/f")
	s.exec(t, "twice/c", "ls", "/b/f")
	handle := s.handle(t, "twice")
	require.NoError(t, s.callsAfter(0, handle, "NodePublishVolume"))
	require.Error(t, s.callsAfter(0, handle, "begin NodePublishVolume", "begin NodePublishVolume"))
}

// prepareLost creates a claim and then deletes its volume.
func (s *storage) prepareLost(t *testing.T) {
	s.apply(t, claim("lost", "ReadWriteOnce", immediate))
	s.waitField(t, "pvc", "lost", "{.status.phase}", "Bound")
	s.lost = s.handle(t, "lost")
	pv := "pvc-" + s.lost
	s.do(t, "delete", "pv", pv, "--wait=false")
	s.do(t, "patch", "pv", pv, "-p", `{"metadata":{"finalizers":null}}`)
	s.waitField(t, "pvc", "lost", "{.status.phase}", "Lost")
}

// remoteClaim returns a claim that is bound to a volume of another node.
func remoteClaim() string {
	return claim("elsewhere", "ReadWriteOnce", `storageClassName: "", volumeName: NODE-pv, `) + `
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: NODE-pv}
spec:
  capacity: {storage: 4Mi}
  accessModes: [ReadWriteOnce]
  claimRef: {namespace: NS, name: elsewhere}
  csi: {driver: DRIVER, volumeHandle: elsewhere}
  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [another]}]}]}}
`
}

// Unusable claims keep their pods waiting with the reason. After a repair the pods continue.
func testClaimFaults(t *testing.T, s *storage) {
	for pod, why := range map[string]string{
		"nowhere":   `persistentvolumeclaims "nowhere" not found`,
		"classless": "not bound",
		"lost":      "Lost",
		"elsewhere": "node affinity",
	} {
		s.waitEventText(t, "Pod", pod, "FailedMount", why)
		s.requireWaiting(t, pod)
	}
	s.waitEventText(t, "PersistentVolumeClaim", "classless", "ProvisioningFailed", s.name+"-missing")
	require.Error(t, s.callsAfter(0, "elsewhere", "begin NodeStageVolume"))
	s.applyStorage(t, claim("nowhere", "ReadWriteOnce", immediate)+"\n---\napiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: NODE-missing}\nprovisioner: DRIVER\n")
	s.ready(t, "nowhere")
	s.ready(t, "classless")
}

// V25: a volume that is not attached is not staged, and an event of the pod reports it.
func testNotAttached(t *testing.T, s *storage) {
	s.waitEventText(t, "Pod", "unattached", "FailedMount", "not attached to this node yet")
	s.requireWaiting(t, "unattached")
	handle := s.handle(t, "unattached")
	inUse, attached, err := s.nodeState(t.Context(), handle)
	require.NoError(t, err)
	require.True(t, inUse && !attached, "the Node lists the volume as in use, not as attached")
	require.Error(t, s.callsAfter(0, handle, "begin NodeStageVolume"))
	s.unattached.Delete("unattached")
	s.ready(t, "unattached")
}

// V30: a pod is removed only after its volume is unmounted.
func testSlowUnmount(t *testing.T, s *storage) {
	s.ready(t, "slow")
	handle, release := s.handle(t, "slow"), make(chan struct{})
	s.setFault(func(ctx context.Context, method, about string) error {
		if method == "NodeUnpublishVolume" && about == handle {
			select {
			case <-release:
			case <-ctx.Done():
			}
		}
		return nil
	})
	s.do(t, "delete", "pod", "slow", "--wait=false")
	s.until(t, "the driver unpublishes the volume", func() error { return s.callsAfter(0, handle, "begin NodeUnpublishVolume") })
	time.Sleep(2 * time.Second)
	require.NotEmpty(t, s.get(t, "pod", "slow", "{.metadata.name}"))
	require.NotContains(t, s.ids(t), "slow/c")
	close(release)
	s.waitDeleted(t, "pod", "slow")
	require.NoError(t, s.callsAfter(0, handle, "NodeUnpublishVolume"))
}

// testEndOfVolumes deletes all pods and claims and checks that no volume has remains.
func testEndOfVolumes(t *testing.T, s *storage) {
	s.do(t, "delete", "statefulset,pod,pvc", "--all", "--wait=false")
	s.do(t, "delete", "pv", s.name+"-pv", "--wait=false")
	s.until(t, "all pods and volumes are deleted", func() error { // pods with other volumes, too
		volumes, err := s.volumes(t.Context())
		attachments, other := s.attachments(t.Context())
		pods := s.pods(t)
		if err = errors.Join(err, other); err != nil || len(volumes)+len(attachments)+len(pods) > 0 {
			return fmt.Errorf("%d volumes, %d attachments, %d pods: %w", len(volumes), len(attachments), len(pods), err)
		}
		return nil
	})
	left, err := os.ReadDir(s.driver.Data)
	require.NoError(t, err)
	for _, file := range left {
		require.Equal(t, s.lost, file.Name(), "only the volume without an object remains")
	}
	n, err := s.api.Nodes().Get(t.Context(), s.name, metav1.GetOptions{})
	require.NoError(t, err)
	require.Empty(t, n.Status.VolumesInUse)
	require.Empty(t, n.Status.VolumesAttached)
	require.Empty(t, s.mounts(t, "kubernetes.io~csi", "kubernetes.io/csi"))
	devices, err := exec.Command("losetup", "--noheadings", "--output", "BACK-FILE").Output()
	require.NoError(t, err)
	require.NotContains(t, string(devices), s.driver.Data)
	require.NotContains(t, string(devices), s.root)
	s.do(t, "delete", "csidriver", s.driver.Name, s.inline.Name)
	s.do(t, "delete", "storageclass", s.name+"-now", s.name+"-later", s.name+"-missing")
}
