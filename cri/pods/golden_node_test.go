package pods_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/images"
	"github.com/podwright/podwright/cri/pods"
	"github.com/podwright/podwright/cri/pods/request"
	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/internal/testkit/golden"
	"github.com/podwright/podwright/volume"
)

// goldenNode is the node of a set of records, with its files below dir.
type goldenNode struct {
	set      string
	env      golden.Environment
	recorded golden.Recorded
	objects  *request.Memory
	classes  map[string]string // handlers of runtime classes
	dir      string
}

// readObjects reads the API objects besides pods.
func (n *goldenNode) readObjects(t *testing.T) {
	n.objects, n.classes = &request.Memory{}, map[string]string{}
	if !n.recorded.APIServer {
		return
	}
	text, err := os.ReadFile(filepath.Join(goldenDir, n.set, "objects.yaml"))
	require.NoError(t, err)
	var services []*v1.Service
	for _, document := range strings.Split(string(text), "\n---\n") {
		var kind metav1.TypeMeta
		require.NoError(t, yaml.Unmarshal([]byte(document), &kind))
		switch kind.Kind {
		case "ConfigMap":
			n.objects.AddConfigMap(parse[v1.ConfigMap](t, document))
		case "Secret":
			n.objects.AddSecret(parse[v1.Secret](t, document))
		case "Service":
			services = append(services, parse[v1.Service](t, document))
		case "RuntimeClass":
			class := parse[struct {
				metav1.ObjectMeta `json:"metadata"`
				Handler           string
			}](t, document)
			n.classes[class.Name] = class.Handler
		}
	}
	n.objects.SetServices(services...)
}

func parse[T any](t *testing.T, text string) *T {
	out := new(T)
	require.NoError(t, yaml.Unmarshal([]byte(text), out))
	return out
}

// furnish makes the node's files for one pod.
func (n *goldenNode) furnish(t *testing.T) {
	n.dir = t.TempDir()
	for name, text := range map[string]string{"resolv.conf": n.env.ResolvConf, "hosts": n.env.Hosts} {
		require.NoError(t, os.WriteFile(filepath.Join(n.dir, name), []byte(text), 0o644))
	}
}

func (n *goldenNode) podDir(uid types.UID) string { return filepath.Join(n.dir, "pods", string(uid)) }

// manager returns a Manager with the defaults of the upstream kubelet and the recorder's
// configuration.
func (n *goldenNode) manager(t *testing.T, rt *golden.Runtime) *pods.Manager {
	pulls, err := images.New(images.Config{Service: rt})
	require.NoError(t, err)
	m, err := pods.New(pods.Config{
		Runtime: rt, Images: pulls, RuntimeName: "fake", Owner: cri.Owner{Unlabelled: true},
		LogRoot: filepath.Join(n.dir, "logs"), PodDir: n.podDir,
		CgroupParent: n.cgroupOf,
		Hooks:        noHooks{},
		RuntimeHandler: func(_ context.Context, pod *v1.Pod) (string, error) {
			return n.classes[*pod.Spec.RuntimeClassName], nil
		},
		Inputs: request.Inputs{
			Volumes: n, SubPaths: n, ConfigMaps: n.objects, Secrets: n.objects, Services: n.objects,
			UserNamespace: func(*v1.Pod) (request.UserNamespace, error) {
				return request.UserNamespace{HostID: 65536, Length: 65536}, nil
			},
			HandlerFeatures: n.features,
		},
		Node: n.node(), DNS: n.dns(),
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
	if n.recorded.Options {
		node.SeccompDefault, node.CPUQuotaPeriod = true, golden.OptionalCPUPeriod
	}
	for _, size := range []struct{ kib, name string }{{"1048576", "1GB"}, {"2048", "2MB"}} {
		if n.env.HugePages[size.kib] > 0 {
			node.HugePageSizes = append(node.HugePageSizes, size.name)
		}
	}
	return node
}

func (n *goldenNode) dns() pods.DNS {
	dns := pods.DNS{
		ClusterServers: n.env.ClusterDNS, ClusterDomain: n.env.ClusterDomain,
		HostResolver: filepath.Join(n.dir, "resolv.conf"), HostsFile: filepath.Join(n.dir, "hosts"),
	}
	if n.recorded.Options {
		dns.ClusterServers, dns.NoHostResolver = nil, true
	}
	return dns
}

// features returns the features that the upstream kubelet detects. Without an API server it does
// not detect recursive read-only mounts.
func (n *goldenNode) features(*v1.Pod) request.HandlerFeatures {
	return request.HandlerFeatures{UserNamespaces: true, RecursiveReadOnlyMounts: n.recorded.APIServer}
}

// Volume returns the paths of the upstream kubelet's volumes.
func (n *goldenNode) Volume(_ context.Context, pod *v1.Pod, name string) (volume.Mounted, error) {
	i := slices.IndexFunc(pod.Spec.Volumes, func(v v1.Volume) bool { return v.Name == name })
	if i < 0 {
		return volume.Mounted{}, request.ErrNotFound
	}
	v := pod.Spec.Volumes[i].VolumeSource
	if v.HostPath != nil {
		return volume.Mounted{Path: v.HostPath.Path}, nil
	}
	plugin := ""
	switch {
	case v.EmptyDir != nil:
		plugin = "empty-dir"
	case v.DownwardAPI != nil:
		plugin = "downward-api"
	case v.ConfigMap != nil:
		plugin = "configmap"
	case v.Secret != nil:
		plugin = "secret"
	case v.Projected != nil:
		plugin = "projected"
	default:
		return volume.Mounted{}, fmt.Errorf("volume %q is of a kind that no golden pod has", name)
	}
	path := filepath.Join(n.podDir(pod.UID), "volumes", "kubernetes.io~"+plugin, name)
	return volume.Mounted{Path: path, ReadOnly: v.EmptyDir == nil}, os.MkdirAll(path, 0o755)
}

// Prepare returns the upstream kubelet's path of a sub path.
func (n *goldenNode) Prepare(_ context.Context, s volume.SubPath) (string, error) {
	return filepath.Join(n.podDir(s.PodUID), "volume-subpaths", s.Volume, s.Container, strconv.Itoa(s.Index)), nil
}

func (n *goldenNode) Release(context.Context, volume.SubPath) error { return nil }

// cgroupOf returns the cgroup that a kubelet makes for a pod.
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

// record converts requests to the recorder's form.
func (n *goldenNode) record(t *testing.T, requests golden.Requests) golden.Record {
	c := golden.Canonical{Replace: []string{n.dir + "/pods/", "/var/lib/kubelet/pods/", n.dir + "/logs", "/var/log/pods"}}
	record, err := c.Record(requests)
	require.NoError(t, err)
	return record
}
