package request

import (
	"context"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/volume"
)

// Memory implements all input interfaces.
var (
	_ ConfigMaps = &Memory{}
	_ Secrets    = &Memory{}
	_ Services   = &Memory{}
	_ Volumes    = &Memory{}
	_ SubPaths   = &Memory{}
)

// For every pod, building never panics, does not change the pod, is deterministic, and on failure
// leaves no sub path prepared.
func FuzzBuild(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 0))
		pod := &v1.Pod{}
		fill(r, reflect.ValueOf(pod).Elem(), 0)
		pod.Namespace = "shop"
		m := objects()
		m.SetVolume(pod.UID, "a", volume.Mounted{Path: "/vol", Device: "/dev/x"})
		m.SetServices(service("shop", "db", "10.0.0.1", v1.ServicePort{Port: 1}))
		b, err := New(Config{
			Node: Node{MemoryCapacity: 1 << 30, CgroupV2: true, SwapController: true, LimitedSwap: true, SwapCapacity: 1 << 30, HugePageSizes: []string{"2MB"}, MemoryQoS: MemoryQoS{Enabled: true}},
			DNS:  DNS{NoHostResolver: true, ClusterServers: []string{"10.96.0.10"}, ClusterDomain: "cluster.local"},
			Inputs: Inputs{
				ConfigMaps: m, Secrets: m, Services: m, Volumes: m, SubPaths: m,
				HandlerFeatures: func(*v1.Pod) HandlerFeatures {
					return HandlerFeatures{RecursiveReadOnlyMounts: true, UserNamespaces: true}
				},
				UserNamespace: func(*v1.Pod) (UserNamespace, error) { return UserNamespace{HostID: 65536, Length: 65536}, nil },
				Devices:       func(context.Context, *v1.Pod, *v1.Container) (Devices, error) { return Devices{}, nil },
			},
		})
		require.NoError(t, err)
		before := pod.DeepCopy()
		twice(t, func() (proto.Message, error) { return b.Sandbox(pod, 1) })
		list := slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers)
		for i := range pod.Spec.EphemeralContainers {
			list = append(list, v1.Container(pod.Spec.EphemeralContainers[i].EphemeralContainerCommon))
		}
		for i := range list {
			m.prepared = nil
			build := func() (proto.Message, error) {
				return b.Container(t.Context(), Instance{Pod: pod, Container: &list[i], PodIPs: []string{"10.0.0.2"}})
			}
			if _, err := build(); err != nil {
				require.Empty(t, m.prepared)
			}
			twice(t, build)
		}
		_, _ = b.Hosts(pod, []string{"10.0.0.2"})
		_ = ForbiddenSysctls(pod, "")
		require.Equal(t, before, pod)
	})
}

// fill sets v to a random value from meaningful words and numbers. Most fields stay zero, so that
// some pods can be built.
func fill(r *rand.Rand, v reflect.Value, depth int) {
	texts := []string{"", "a", "a", "b", "conf", "pass", "A", "word", "..", "/a", "a/b", "$(A)", "x=y", "a-b", "status.podIP", "metadata.labels['a']",
		"limits.cpu", "cpu", "memory", "hugepages-2Mi", "example.com/gpu", "Always", "Localhost", "RuntimeDefault", "Unmasked", "Strict", "Enabled",
		"Bidirectional", "TCP", "UDP", "None", "ClusterFirst", "Default", "SIGTERM", "net.ipv4.tcp_rmem", strings.Repeat("n", 70)}
	numbers := []int64{-1, 0, 1, 2, 53, 65535, 65536, 1 << 40}
	switch {
	case v.Type() == reflect.TypeFor[resource.Quantity]():
		quantities := []string{"0", "1", "100m", "1Gi", "-1", "9223372036854775807", "1e30", "1n"}
		v.Set(reflect.ValueOf(resource.MustParse(quantities[r.IntN(len(quantities))])))
	case v.Type() == reflect.TypeFor[metav1.Time]() || v.Type() == reflect.TypeFor[metav1.FieldsV1](), depth > 14:
	case v.Kind() == reflect.String:
		v.SetString(texts[r.IntN(len(texts))])
	case v.CanInt():
		v.SetInt(numbers[r.IntN(len(numbers))])
	case v.CanUint():
		v.SetUint(uint64(r.IntN(256)))
	case v.Kind() == reflect.Bool:
		v.SetBool(r.IntN(2) == 0)
	case v.Kind() == reflect.Pointer:
		if r.IntN(4) == 0 {
			v.Set(reflect.New(v.Type().Elem()))
			fill(r, v.Elem(), depth+1)
		}
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			if depth < 2 || r.IntN(3) > 0 {
				fill(r, v.Field(i), depth+1)
			}
		}
	case v.Kind() == reflect.Slice:
		for range r.IntN(3) {
			v.Set(reflect.Append(v, reflect.Zero(v.Type().Elem())))
			fill(r, v.Index(v.Len()-1), depth+1)
		}
	case v.Kind() == reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range r.IntN(3) {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			fill(r, key, depth+1)
			fill(r, value, depth+1)
			v.SetMapIndex(key, value)
		}
	}
}

// The generator is useful: some of its pods can be built.
func TestFill(t *testing.T) {
	b, err := New(Config{DNS: DNS{NoHostResolver: true}})
	require.NoError(t, err)
	built := 0
	for seed := range uint64(300) {
		pod := &v1.Pod{}
		fill(rand.New(rand.NewPCG(seed, 0)), reflect.ValueOf(pod).Elem(), 0)
		for i := range pod.Spec.Containers {
			if _, err := b.Container(t.Context(), Instance{Pod: pod, Container: &pod.Spec.Containers[i]}); err == nil {
				built++
			}
		}
	}
	require.Greater(t, built, 10)
}

func twice(t *testing.T, build func() (proto.Message, error)) {
	t.Helper()
	first, err := build()
	second, again := build()
	if err != nil {
		require.EqualError(t, again, err.Error())
		return
	}
	require.NoError(t, again)
	require.True(t, proto.Equal(first, second))
}
