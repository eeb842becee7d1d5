package podfacts

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// 6.4: FieldValue returns every field of a fieldRef.
func TestFieldValue(t *testing.T) {
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "web", Namespace: "shop", UID: "0d1e",
			Labels: map[string]string{"app": "web"}, Annotations: map[string]string{"b": "2", "a": "say \"1\"\n", "X.org/Key": "k"},
		},
		Spec: v1.PodSpec{ServiceAccountName: "sa"},
	}
	s := Surroundings{NodeName: "node-1", HostIPs: []string{"192.0.2.1", "2001:db8::1"}, PodIPs: []string{"10.0.0.2", "fd00::2"}}
	for path, want := range map[string]string{
		"metadata.name": "web", "metadata.namespace": "shop", "metadata.uid": "0d1e", "metadata.labels": `app="web"`,
		"metadata.annotations": "X.org/Key=\"k\"\na=\"say \\\"1\\\"\\n\"\nb=\"2\"", "metadata.labels['app']": "web", "metadata.labels['none']": "",
		"metadata.annotations['X.org/Key']": "k", "spec.nodeName": "node-1", "spec.serviceAccountName": "sa",
		"status.podIP": "10.0.0.2", "status.podIPs": "10.0.0.2,fd00::2", "status.hostIP": "192.0.2.1", "status.hostIPs": "192.0.2.1,2001:db8::1",
	} {
		got, err := FieldValue(pod, path, s)
		require.NoError(t, err, path)
		require.Equal(t, want, got, path)
	}
	pod.Spec.NodeName = "own"
	got, err := FieldValue(pod, "spec.nodeName", s)
	require.NoError(t, err)
	require.Equal(t, "own", got)
	got, err = FieldValue(pod, "status.podIP", Surroundings{})
	require.NoError(t, err)
	require.Empty(t, got)
	for path, want := range map[string]string{
		"spec.unknown": "unsupported", "metadata.name['x']": "has no keys", "metadata.labels['a b']": "invalid key", "metadata.labels['']": "invalid key",
		"['x']": "unsupported", "metadata.labels['x": "unsupported", "metadata.labels']": "unsupported", "status.hostIP": "unavailable", "status.hostIPs": "unavailable",
	} {
		_, err := FieldValue(pod, path, Surroundings{})
		require.ErrorContains(t, err, want, path)
	}
}

func TestOrderIPs(t *testing.T) {
	both := []string{"10.0.0.2", "fd00::2", "10.0.0.3"}
	require.Equal(t, []string{"10.0.0.2", "fd00::2"}, OrderIPs(both, []string{"192.0.2.1"}))
	require.Equal(t, []string{"fd00::2", "10.0.0.2"}, OrderIPs(both, []string{"2001:db8::1"}))
	require.Equal(t, []string{"10.0.0.2"}, OrderIPs([]string{"garbage", "10.0.0.2"}, []string{"2001:db8::1"}))
	require.Empty(t, OrderIPs(nil, nil))
}

// 6.4: divisors, rounding, and the replacements of an unset limit.
func TestResourceValue(t *testing.T) {
	full := v1.Container{Name: "full", Resources: v1.ResourceRequirements{
		Requests: v1.ResourceList{"cpu": resource.MustParse("250m"), "memory": resource.MustParse("100Mi"), "hugepages-2Mi": resource.MustParse("4Mi")},
		Limits:   v1.ResourceList{"cpu": resource.MustParse("1500m"), "memory": resource.MustParse("1Gi"), "ephemeral-storage": resource.MustParse("1G"), "hugepages-2Mi": resource.MustParse("4Mi")},
	}}
	pod := &v1.Pod{Spec: v1.PodSpec{
		Containers:     []v1.Container{full, {Name: "bare"}},
		InitContainers: []v1.Container{{Name: "init", Resources: v1.ResourceRequirements{Requests: list("1", "")}}},
	}}
	allocatable := v1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("8Gi"), "ephemeral-storage": resource.MustParse("100G"), "hugepages-2Mi": resource.MustParse("1Gi")}
	for _, tc := range []struct{ container, field, divisor, want string }{
		{"full", "requests.cpu", "", "1"},
		{"full", "requests.cpu", "1m", "250"},
		{"full", "limits.cpu", "", "2"},
		{"full", "limits.cpu", "100m", "15"},
		{"full", "requests.memory", "", "104857600"},
		{"full", "requests.memory", "1Mi", "100"},
		{"full", "requests.memory", "33Mi", "4"},
		{"full", "limits.memory", "1Gi", "1"},
		{"full", "limits.memory", "1P", "1"}, // the largest divisor
		{"full", "requests.memory", "104857599", "2"},
		{"full", "limits.ephemeral-storage", "1k", "1000000"},
		{"full", "requests.ephemeral-storage", "", "0"},
		{"full", "limits.hugepages-2Mi", "1Mi", "4"},
		{"full", "requests.hugepages-2Mi", "1Mi", "4"},
		{"bare", "limits.cpu", "", "4"},
		{"bare", "limits.memory", "1Gi", "8"},
		{"bare", "limits.ephemeral-storage", "1G", "100"},
		{"bare", "limits.hugepages-2Mi", "", "0"},
		{"bare", "requests.cpu", "", "0"},
		{"init", "requests.cpu", "", "1"},
		{"init", "limits.cpu", "", "4"},
		{"", "limits.cpu", "", "4"},
	} {
		ref := &v1.ResourceFieldSelector{ContainerName: tc.container, Resource: tc.field}
		if tc.divisor != "" {
			ref.Divisor = resource.MustParse(tc.divisor)
		}
		got, err := ResourceValue(pod, &pod.Spec.Containers[1], ref, allocatable)
		require.NoError(t, err, tc)
		require.Equal(t, tc.want, got, tc)
	}
	pod.Spec.Resources = &v1.ResourceRequirements{Limits: list("3", "")}
	got, err := ResourceValue(pod, &pod.Spec.Containers[1], &v1.ResourceFieldSelector{Resource: "limits.cpu"}, allocatable)
	require.NoError(t, err)
	require.Equal(t, "3", got, "the pod's limit comes before the node's")
	pod.Spec.Resources.Limits["ephemeral-storage"] = resource.MustParse("7")
	got, err = ResourceValue(pod, &pod.Spec.Containers[1], &v1.ResourceFieldSelector{Resource: "limits.ephemeral-storage"}, allocatable)
	require.NoError(t, err)
	require.Equal(t, "100000000000", got, "of storage pods have no limit as a whole")
	for _, test := range []struct {
		ref  v1.ResourceFieldSelector
		want string
	}{
		{v1.ResourceFieldSelector{ContainerName: "none", Resource: "limits.cpu"}, `container "none" not found`},
		{v1.ResourceFieldSelector{Resource: "limits.gpu"}, `unsupported container resource: "limits.gpu"`},
		{v1.ResourceFieldSelector{Resource: "cpu"}, `unsupported container resource: "cpu"`},
		{v1.ResourceFieldSelector{Resource: "other.cpu"}, "unsupported container resource"},
		{v1.ResourceFieldSelector{Resource: "limits.cpu", Divisor: resource.MustParse("-1")}, "is negative"},
		{v1.ResourceFieldSelector{Resource: "limits.cpu", Divisor: resource.MustParse("1e400")}, "is too large"},
		{v1.ResourceFieldSelector{Resource: "limits.cpu", Divisor: resource.MustParse("1Ei")}, "is too large"},
		{v1.ResourceFieldSelector{Resource: "limits.memory", Divisor: resource.MustParse("9223372036854775808")}, "is too large"},
		{v1.ResourceFieldSelector{Resource: "limits.memory", Divisor: resource.MustParse("1e2000000000")}, "is too large"},
	} {
		_, err := ResourceValue(pod, &pod.Spec.Containers[1], &test.ref, allocatable)
		require.ErrorContains(t, err, test.want)
	}
}

func TestIsCritical(t *testing.T) {
	with := func(change func(*v1.Pod)) bool {
		pod := &v1.Pod{}
		change(pod)
		return IsCritical(pod)
	}
	priority := int32(2_000_000_000)
	require.False(t, with(func(*v1.Pod) {}))
	require.True(t, with(func(p *v1.Pod) { p.Spec.Priority = &priority }))
	require.True(t, with(func(p *v1.Pod) { p.Spec.PriorityClassName = "system-cluster-critical" }))
	require.True(t, with(func(p *v1.Pod) { p.Spec.PriorityClassName = "system-node-critical" }))
	require.True(t, with(func(p *v1.Pod) { p.Annotations = map[string]string{ConfigSource: "file"} }))
	require.True(t, with(func(p *v1.Pod) { p.Annotations = map[string]string{ConfigMirror: ""} }))
	lower := priority - 1
	require.False(t, with(func(p *v1.Pod) { p.Spec.Priority = &lower }))
	require.True(t, IsNodeCritical(&v1.Pod{Spec: v1.PodSpec{PriorityClassName: "system-node-critical"}}))
	require.False(t, IsNodeCritical(&v1.Pod{Spec: v1.PodSpec{PriorityClassName: "system-cluster-critical"}}))
}

func FuzzFieldPath(f *testing.F) {
	plain := map[string]string{
		"metadata.name": "web", "metadata.namespace": "shop", "metadata.uid": "0d1e", "metadata.labels": "a=\"1\"", "metadata.annotations": "B/c=\"2\"",
		"spec.nodeName": "node", "spec.serviceAccountName": "robot", "status.podIP": "10.0.0.2", "status.podIPs": "10.0.0.2,fd00::2", "status.hostIP": "192.0.2.1", "status.hostIPs": "192.0.2.1",
	}
	for seed := range plain {
		f.Add(seed)
	}
	for _, seed := range []string{"metadata.labels['a']", "metadata.labels['b']", "metadata.annotations['B/c']", "metadata.annotations['']", "metadata.name['a']", "['", "']", "metadata.labels['a'] "} {
		f.Add(seed)
	}
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop", UID: "0d1e", Labels: map[string]string{"a": "1"}, Annotations: map[string]string{"B/c": "2"}},
		Spec:       v1.PodSpec{ServiceAccountName: "robot"},
	}
	around := Surroundings{NodeName: "node", HostIPs: []string{"192.0.2.1"}, PodIPs: []string{"10.0.0.2", "fd00::2"}}
	keyed := regexp.MustCompile(`(?s)^metadata\.(labels|annotations)\['(.*)'\]$`)
	f.Fuzz(func(t *testing.T, path string) {
		value, err := FieldValue(pod, path, around)
		if want, ok := plain[path]; ok {
			require.NoError(t, err)
			require.Equal(t, want, value)
			return
		}
		match := keyed.FindStringSubmatch(path)
		switch {
		case match == nil:
			require.Error(t, err)
		case err == nil && match[1] == "labels":
			require.Equal(t, pod.Labels[match[2]], value)
		case err == nil:
			require.Equal(t, pod.Annotations[match[2]], value)
		default:
			require.NotContains(t, []string{"a", "b", "B/c"}, match[2], "a good key")
		}
		if err != nil {
			require.Empty(t, value)
		}
	})
}

func TestExpand(t *testing.T) {
	vars := map[string]string{"A": "x", "EMPTY": "", "NEST": "$(A)"}
	lookup := func(name string) (string, bool) { v, ok := vars[name]; return v, ok }
	for in, want := range map[string]string{
		"": "", "plain": "plain", "$(A)": "x", "-$(A)$(A)-": "-xx-", "$(EMPTY)": "", "$(NEST)": "$(A)",
		"$$(A)": "$(A)", "$$$(A)": "$x", "$$": "$", "$": "$", "a$": "a$", "$A": "$A", "$(B)": "$(B)", "$(A": "$(A", "$()": "$()",
		"$(A$(A)": "$(A$(A)", "$$$": "$$", "$xA)": "$xA)",
	} {
		got, ok := Expand(in, len(want), lookup)
		require.True(t, ok, in)
		require.Equal(t, want, got, in)
		_, ok = Expand(in, len(want)-1, lookup)
		require.False(t, ok, in)
	}
}

// Expand stops at the limit and does not build the rest.
func TestExpandIsBounded(t *testing.T) {
	big := strings.Repeat("x", 1<<20)
	asked := 0
	_, ok := Expand(strings.Repeat("$(BIG)", 1<<20), 4<<20, func(string) (string, bool) { asked++; return big, true })
	require.False(t, ok)
	require.Equal(t, 5, asked)
}

// references matches the parts that Expand replaces, as an independent implementation.
var references = regexp.MustCompile(`(?s)\$\$|\$\([^)]*\)|\$.`)

func FuzzExpand(f *testing.F) {
	for _, seed := range []string{"$(A)", "$$(A", "$", "($)$", "$(A)$(B)$$$(A)", "$(", "$(A$(A))"} {
		f.Add(seed, 100)
	}
	f.Add("$(A)", 1)
	f.Fuzz(func(t *testing.T, text string, limit int) {
		vars := map[string]string{"A": "some$$thing", "": "nothing", "$(A": "odd"}
		lookup := func(name string) (string, bool) { v, ok := vars[name]; return v, ok }
		want := references.ReplaceAllStringFunc(text, func(ref string) string {
			if ref == "$$" {
				return "$"
			}
			if name, ok := strings.CutPrefix(ref, "$("); ok && strings.HasSuffix(name, ")") {
				if value, ok := lookup(name[:len(name)-1]); ok {
					return value
				}
			}
			return ref
		})
		got, ok := Expand(text, limit, lookup)
		require.Equal(t, len(want) <= limit, ok)
		if ok {
			require.Equal(t, want, got)
		}
	})
}
