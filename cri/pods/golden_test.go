package pods_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri/images"
	"github.com/podwright/podwright/cri/pods"
	"github.com/podwright/podwright/cri/pods/request"
	"github.com/podwright/podwright/internal/golden"
	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/pleg"
)

const goldenDir = "testdata/golden"

// Every request for every golden pod is the upstream kubelet's, field by field,
// except where deliberate says why not. examples/golden records them.
func TestGolden(t *testing.T) {
	used, all := make([]bool, len(deliberate)), true
	for _, set := range []string{"", golden.Cgroup2} {
		n, names := goldenSet(t, set)
		for _, name := range names {
			compared := false
			t.Run(path.Join(set, name), func(t *testing.T) {
				compared = true
				n.compare(t, name, used)
			})
			all = all && compared
		}
	}
	for i, d := range deliberate {
		if all && !used[i] { // if only some were run, that tells nothing
			t.Errorf("the difference %q of pods %q is not there any more", d.field, d.pods)
		}
	}
}

// goldenSet is the node of a set of records, and the records' names.
func goldenSet(t *testing.T, set string) (*goldenNode, []string) {
	n := &goldenNode{set: set}
	var err error
	n.env, err = golden.ReadEnvironment(goldenDir)
	require.NoError(t, err)
	n.recorded, err = golden.ReadRecorded(filepath.Join(goldenDir, set))
	require.NoError(t, err)
	paths, err := filepath.Glob(filepath.Join(goldenDir, set, "*.json"))
	require.NoError(t, err)
	var names []string
	for _, p := range paths {
		if base := filepath.Base(p); base != "environment.json" && base != "recorded.json" {
			names = append(names, strings.TrimSuffix(base, ".json"))
		}
	}
	require.Greater(t, len(names), 10)
	return n, names
}

// TestGoldenComplete: each manifest has a record.
func TestGoldenComplete(t *testing.T) {
	n, names := goldenSet(t, "")
	manifests, err := filepath.Glob(filepath.Join(goldenDir, "pods", "*.yaml"))
	require.NoError(t, err)
	require.Greater(t, len(manifests), 60)
	for _, manifest := range manifests {
		name := strings.TrimSuffix(filepath.Base(manifest), ".yaml")
		if _, refused := n.recorded.Refused[name]; !refused && !slices.Contains(names, name) {
			t.Errorf("%s has no record: see examples/golden", manifest)
		}
	}
}

// compare has a pod run here and compares the requests. It notes which of the
// deliberate differences there are.
func (n *goldenNode) compare(t *testing.T, name string, used []bool) {
	want, err := golden.ReadRecord(filepath.Join(goldenDir, n.set), name)
	require.NoError(t, err)
	for _, d := range differences(plain(t, want), plain(t, n.replay(t, want))) {
		if i := indexDeliberate(path.Join(n.set, name), d.field); i >= 0 {
			used[i] = true
			continue
		}
		t.Errorf("%s: upstream %s, here %s", d.field, d.want, d.got)
	}
}

// plain turns a record into maps, lists and strings. Containers are found by
// their name and number, and the order in which they were created is a list of
// its own.
func plain(t *testing.T, r golden.Record) map[string]any {
	t.Helper()
	text, err := json.Marshal(r)
	require.NoError(t, err)
	var all map[string]any
	require.NoError(t, json.Unmarshal(text, &all))
	delete(all, "pod")
	containers, order := map[string]any{}, []any{}
	list, _ := all["containers"].([]any)
	for _, c := range list {
		metadata := c.(map[string]any)["config"].(map[string]any)["metadata"].(map[string]any)
		attempt, ok := metadata["attempt"]
		if !ok {
			attempt = 0
		}
		key := fmt.Sprintf("%v#%v", metadata["name"], attempt)
		order = append(order, key)
		containers[key] = c
	}
	all["containers"], all["order"] = containers, order
	return all
}

// replay has a Manager run a recorded pod, and returns what it asked for.
func (n *goldenNode) replay(t *testing.T, want golden.Record) golden.Record {
	n.furnish(t)
	var pod v1.Pod
	require.NoError(t, json.Unmarshal(want.Pod, &pod))
	var requests golden.Requests
	synctest.Test(t, func(t *testing.T) {
		rt, err := golden.NewRuntime(n.env)
		require.NoError(t, err)
		defer rt.Close()
		manager := n.manager(t, rt)
		for range len(want.Containers) + 4 {
			status, err := manager.PodStatus(t.Context(), pod.UID)
			require.NoError(t, err)
			result := manager.SyncPod(t.Context(), pods.SyncRequest{Pod: &pod, Status: status, Startup: allStarted(status)})
			require.NoError(t, result.Err())
			time.Sleep(time.Second) // in the bubble: what ends at once has ended
		}
		requests, _ = rt.Requests(string(pod.UID))
	})
	require.NotEmpty(t, requests.Sandboxes)
	return n.record(t, requests)
}

// allStarted is what startup probes say that succeed at once.
func allStarted(status *pleg.PodStatus) map[pleg.ContainerID]pods.ProbeResult {
	out := map[pleg.ContainerID]pods.ProbeResult{}
	for _, c := range status.Running() {
		out[c.ID] = pods.ProbeSuccess
	}
	return out
}

// goldenNode is the node that a set of records was made on, with its files below
// dir.
type goldenNode struct {
	set      string
	env      golden.Environment
	recorded golden.Recorded
	dir      string
}

// furnish gives the node files for one pod.
func (n *goldenNode) furnish(t *testing.T) {
	n.dir = t.TempDir()
	for name, text := range map[string]string{"resolv.conf": n.env.ResolvConf, "hosts": n.env.Hosts} {
		require.NoError(t, os.WriteFile(filepath.Join(n.dir, name), []byte(text), 0o644))
	}
}

func (n *goldenNode) podDir(uid types.UID) string { return filepath.Join(n.dir, "pods", string(uid)) }

// manager is a Manager with the configuration of the upstream kubelet's
// defaults, and of the recorder.
func (n *goldenNode) manager(t *testing.T, rt *golden.Runtime) *pods.Manager {
	pulls, err := images.New(images.Config{Service: rt})
	require.NoError(t, err)
	m, err := pods.New(pods.Config{
		Runtime: rt, Images: pulls, RuntimeName: "fake",
		LogRoot: filepath.Join(n.dir, "logs"), PodDir: n.podDir,
		CgroupParent: n.cgroupOf,
		Hooks:        noHooks{},
		Inputs: request.Inputs{
			Volumes: n, SubPaths: n,
			UserNamespace: func(*v1.Pod) (request.UserNamespace, error) {
				return request.UserNamespace{HostID: 65536, Length: 65536}, nil
			},
			HandlerFeatures: func(*v1.Pod) request.HandlerFeatures { return request.HandlerFeatures{UserNamespaces: true} },
		},
		Node: n.node(),
		DNS: pods.DNS{
			ClusterServers: n.env.ClusterDNS, ClusterDomain: n.env.ClusterDomain,
			HostResolver: filepath.Join(n.dir, "resolv.conf"), HostsFile: filepath.Join(n.dir, "hosts"),
		},
	})
	require.NoError(t, err)
	return m
}

func (n *goldenNode) node() pods.Node {
	node := pods.Node{
		Name: n.env.NodeName, IPs: []string{n.env.NodeIP}, MemoryCapacity: n.env.MemoryBytes,
		CgroupV2: n.recorded.CgroupV2, SwapController: n.recorded.SwapController,
		Allocatable: v1.ResourceList{
			v1.ResourceCPU:    *resource.NewMilliQuantity(n.recorded.AllocatableCPU, resource.DecimalSI),
			v1.ResourceMemory: *resource.NewQuantity(n.recorded.AllocatableMemory, resource.BinarySI),
		},
	}
	for _, size := range []struct{ kib, name string }{{"1048576", "1GB"}, {"2048", "2MB"}} {
		if n.env.HugePages[size.kib] > 0 {
			node.HugePageSizes = append(node.HugePageSizes, size.name)
		}
	}
	return node
}

// Volume finds volumes where the upstream kubelet has them.
func (n *goldenNode) Volume(_ context.Context, pod *v1.Pod, name string) (request.Volume, error) {
	for _, v := range pod.Spec.Volumes {
		if v.Name != name {
			continue
		}
		plugin := ""
		switch {
		case v.HostPath != nil:
			return request.Volume{Path: v.HostPath.Path}, nil
		case v.EmptyDir != nil:
			plugin = "kubernetes.io~empty-dir"
		case v.DownwardAPI != nil:
			plugin = "kubernetes.io~downward-api"
		default:
			return request.Volume{}, fmt.Errorf("volume %q is of a kind that no golden pod has", name)
		}
		path := filepath.Join(n.podDir(pod.UID), "volumes", plugin, name)
		return request.Volume{Path: path, ReadOnly: v.DownwardAPI != nil}, os.MkdirAll(path, 0o755)
	}
	return request.Volume{}, request.ErrNotFound
}

// Prepare names sub paths as the upstream kubelet does.
func (n *goldenNode) Prepare(_ context.Context, s request.SubPath) (string, error) {
	return filepath.Join(n.podDir(s.PodUID), "volume-subpaths", s.Volume, s.Container, strconv.Itoa(s.Index)), nil
}

func (n *goldenNode) Release(context.Context, request.SubPath) error { return nil }

// cgroupOf is the cgroup that a kubelet makes for a pod.
func (n *goldenNode) cgroupOf(pod *v1.Pod) string {
	if !n.recorded.PodCgroups {
		return ""
	}
	switch podfacts.QOSClass(pod) {
	case v1.PodQOSGuaranteed:
		return "/kubepods/pod" + string(pod.UID)
	case v1.PodQOSBurstable:
		return "/kubepods/burstable/pod" + string(pod.UID)
	}
	return "/kubepods/besteffort/pod" + string(pod.UID)
}

type noHooks struct{}

func (noHooks) Run(context.Context, *v1.Pod, *v1.Container, string, *v1.LifecycleHandler) (string, error) {
	return "", nil
}

// record writes requests down as the recorder does.
func (n *goldenNode) record(t *testing.T, requests golden.Requests) golden.Record {
	c := golden.Canonical{Replace: []string{n.dir + "/pods/", "/var/lib/kubelet/pods/", n.dir + "/logs", "/var/log/pods"}}
	record, err := c.Record(requests)
	require.NoError(t, err)
	return record
}
