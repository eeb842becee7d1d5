package projected

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/volume"
	"github.com/podwright/podwright/volume/objects"
)

func someObjects() *objects.Memory {
	m := &objects.Memory{}
	meta := metav1.ObjectMeta{Namespace: "ns", Name: "n"}
	m.PutConfigMap(&v1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"a": "1"}, BinaryData: map[string][]byte{"b": {0xff}}})
	m.PutSecret(&v1.Secret{ObjectMeta: meta, Data: map[string][]byte{"a": []byte("1"), "b": []byte("2")}})
	return m
}

func configMap(m *objects.Memory, name string, mode *int32, optional bool, items ...v1.KeyToPath) (payload, error) {
	return configMapFiles(context.Background(), m, "ns", &v1.ConfigMapProjection{
		LocalObjectReference: v1.LocalObjectReference{Name: name}, Items: items, Optional: &optional,
	}, mode)
}

// V9: files have defaultMode 0400, or an item's mode 0440.
func TestKeys(t *testing.T) {
	mode := p(int32(0o400))
	got, err := configMap(someObjects(), "n", mode, false)
	require.NoError(t, err)
	require.Equal(t, payload{"a": {Data: []byte("1"), Mode: 0o400}, "b": {Data: []byte{0xff}, Mode: 0o400}}, got)
	got, err = configMap(someObjects(), "n", mode, false, v1.KeyToPath{Key: "a", Path: "x/y", Mode: p(int32(0o440))}, v1.KeyToPath{Key: "a", Path: "x//z"})
	require.NoError(t, err)
	require.Equal(t, payload{"x/y": {Data: []byte("1"), Mode: 0o440}, "x/z": {Data: []byte("1"), Mode: 0o400}}, got)
	secret, err := secretFiles(t.Context(), someObjects(), "ns", &v1.SecretProjection{LocalObjectReference: v1.LocalObjectReference{Name: "n"}, Items: []v1.KeyToPath{{Key: "b", Path: "c"}}}, mode)
	require.NoError(t, err)
	require.Equal(t, payload{"c": {Data: []byte("2"), Mode: 0o400}}, secret)

	for _, mode := range []int32{0, 0o777} {
		got, err = configMap(someObjects(), "n", &mode, false)
		require.NoError(t, err)
		require.Equal(t, mode, got["a"].Mode)
	}
	got, err = configMap(someObjects(), "none", mode, true)
	require.NoError(t, err)
	require.Empty(t, got)
	got, err = configMap(someObjects(), "n", mode, true, v1.KeyToPath{Key: "none", Path: "x"}, v1.KeyToPath{Key: "a", Path: "y"})
	require.NoError(t, err)
	require.Len(t, got, 1)
}

func TestKeysRejected(t *testing.T) {
	mode, failing := p(int32(0o644)), someObjects()
	failing.Fail = func(volume.Object) error { return errors.New("the server is unreachable") }
	refused := func(want string, err error) {
		t.Helper()
		require.ErrorContains(t, err, want)
		require.Less(t, len(err.Error()), 300)
	}
	for want, c := range map[string]struct {
		objects  *objects.Memory
		name     string
		mode     *int32
		optional bool
		items    []v1.KeyToPath
	}{
		`configmap "ns/none" not found`:                  {someObjects(), "none", mode, false, nil},
		"the server is unreachable":                      {failing, "n", mode, true, nil},
		"name: required":                                 {someObjects(), "", mode, true, nil},
		"defaultMode: required":                          {someObjects(), "n", nil, false, nil},
		"defaultMode: 01000 is not":                      {someObjects(), "n", p(int32(0o1000)), false, nil},
		"defaultMode: -01 is not":                        {someObjects(), "n", p(int32(-1)), false, nil},
		"items[0].mode: -01 is not":                      {someObjects(), "n", mode, false, []v1.KeyToPath{{Key: "a", Path: "a", Mode: p(int32(-1))}}},
		`items[0].path: path "../x" contains`:            {someObjects(), "n", mode, false, []v1.KeyToPath{{Key: "a", Path: "../x"}}},
		`items[0].path: path "/x" is absolute`:           {someObjects(), "n", mode, true, []v1.KeyToPath{{Key: "none", Path: "/x"}}},
		`items[0].key: ConfigMap ns/n has no key "none"`: {someObjects(), "n", mode, false, []v1.KeyToPath{{Key: "none", Path: "x"}}},
		`has no key "kkk`:                                {someObjects(), "n", mode, false, []v1.KeyToPath{{Key: strings.Repeat("k", 1<<20), Path: "x"}}},
	} {
		_, err := configMap(c.objects, c.name, c.mode, c.optional, c.items...)
		refused(want, err)
	}
	_, err := configMapFiles(t.Context(), nil, "ns", &v1.ConfigMapProjection{Optional: p(true)}, mode)
	refused("this agent has no config maps", err)
	_, err = secretFiles(t.Context(), nil, "ns", &v1.SecretProjection{}, mode)
	refused("this agent has no secrets", err)
	_, err = secretFiles(t.Context(), someObjects(), "ns", &v1.SecretProjection{LocalObjectReference: v1.LocalObjectReference{Name: "none"}}, mode)
	refused(`secret "ns/none" not found`, err)
	_, err = secretFiles(t.Context(), someObjects(), "ns", &v1.SecretProjection{Optional: p(true)}, mode)
	refused("name: required", err)
}

func TestDownwardFiles(t *testing.T) {
	field := func(path string) *v1.ObjectFieldSelector { return &v1.ObjectFieldSelector{FieldPath: path} }
	limit := func(container, divisor string) *v1.ResourceFieldSelector {
		f := &v1.ResourceFieldSelector{ContainerName: container, Resource: "limits.memory"}
		if divisor != "" {
			f.Divisor = resource.MustParse(divisor)
		}
		return f
	}
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u", Name: "p", Namespace: "ns", Labels: map[string]string{"b": "2", "a": "1"}, Annotations: map[string]string{"k": "v"}}, Spec: v1.PodSpec{
		Containers: []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{Limits: v1.ResourceList{v1.ResourceMemory: resource.MustParse("3Mi")}}}, {Name: "free"}},
	}}
	files := []v1.DownwardAPIVolumeFile{
		{Path: "name", FieldRef: field("metadata.name")}, {Path: "uid", FieldRef: field("metadata.uid")},
		{Path: "labels", FieldRef: field("metadata.labels")}, {Path: "k", FieldRef: field("metadata.annotations['k']"), Mode: p(int32(0o400))},
		{Path: "r/memory", ResourceFieldRef: limit("c", "1Mi")}, {Path: "r/bytes", ResourceFieldRef: limit("c", "")}, {Path: "r/free", ResourceFieldRef: limit("free", "1Mi")},
	}
	got, err := downwardFiles(pod, files, p(int32(0o644)), v1.ResourceList{v1.ResourceMemory: resource.MustParse("8Mi")})
	require.NoError(t, err)
	text := map[string]string{}
	for name, f := range got {
		text[name] = string(f.Data)
	}
	require.Equal(t, map[string]string{
		"name": "p", "uid": "u", "labels": "a=\"1\"\nb=\"2\"", "k": "v", "r/memory": "3", "r/bytes": "3145728", "r/free": "8",
	}, text)
	require.EqualValues(t, 0o400, got["k"].Mode)

	for want, item := range map[string]v1.DownwardAPIVolumeFile{
		`items[0].fieldRef.fieldPath: "status.podIP"`:          {Path: "x", FieldRef: field("status.podIP")},
		`items[0].fieldRef.fieldPath: unsupported`:             {Path: "x", FieldRef: field("metadata.finalizers")},
		`items[0].resourceFieldRef: container "" not found`:    {Path: "x", ResourceFieldRef: limit("", "")},
		`items[0].fieldRef: neither this nor resourceFieldRef`: {Path: "x"},
		`items[0].path: path "../x"`:                           {Path: "../x", FieldRef: field("metadata.name")},
		`items[0].mode: 010000 is not`:                         {Path: "x", FieldRef: field("metadata.name"), Mode: p(int32(0o10000))},
	} {
		_, err := downwardFiles(pod, []v1.DownwardAPIVolumeFile{item}, p(int32(0o644)), nil)
		require.ErrorContains(t, err, want)
	}
	_, err = downwardFiles(pod, nil, nil, nil)
	require.ErrorContains(t, err, "defaultMode: required")
}

func mount(fsGroup, runAsUser *int64) volume.Mount {
	return volume.Mount{
		Pod:     &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u", Name: "p", Namespace: "ns"}, Spec: v1.PodSpec{ServiceAccountName: "sa"}},
		FSGroup: fsGroup, RunAsUser: runAsUser,
	}
}

func TestToken(t *testing.T) {
	m, at := &objects.Memory{}, time.Unix(1e9, 0)
	var request objects.TokenRequest
	m.IssueToken = func(r objects.TokenRequest) (objects.Token, error) {
		request = r
		return objects.Token{Value: "t", RefreshAt: at}, nil
	}
	mode := p(int32(0o644))
	files, refresh, err := tokenFile(t.Context(), m, mount(nil, nil), &v1.ServiceAccountTokenProjection{Path: "token"}, mode)
	require.NoError(t, err)
	require.Equal(t, at, refresh)
	require.Equal(t, payload{"token": {Data: []byte("t"), Mode: 0o644}}, files)
	require.Equal(t, objects.TokenRequest{Namespace: "ns", ServiceAccount: "sa", ExpirationSeconds: 3600, PodName: "p", PodUID: "u"}, request)
	// V11: only the pod's user may read the file, before the group is added.
	for _, m2 := range []volume.Mount{mount(p(int64(2000)), nil), mount(nil, p(int64(7))), mount(p(int64(2000)), p(int64(7)))} {
		files, _, err = tokenFile(t.Context(), m, m2, &v1.ServiceAccountTokenProjection{Path: "token", Audience: "vault", ExpirationSeconds: p(int64(600))}, mode)
		require.NoError(t, err)
		require.Equal(t, payloadFile{Data: []byte("t"), Mode: 0o600, Owner: m2.RunAsUser}, files["token"])
	}
	require.Equal(t, []string{"vault"}, request.Audiences)
	require.EqualValues(t, 600, request.ExpirationSeconds)
	for want, s := range map[string]*v1.ServiceAccountTokenProjection{
		"expirationSeconds: 599 is less": {Path: "x", ExpirationSeconds: p(int64(599))},
		`path: path "" is empty`:         {},
	} {
		_, _, err = tokenFile(t.Context(), m, mount(nil, nil), s, mode)
		require.ErrorContains(t, err, want)
	}
	_, _, err = tokenFile(t.Context(), m, mount(nil, nil), &v1.ServiceAccountTokenProjection{Path: "x"}, nil)
	require.ErrorContains(t, err, "defaultMode: required")
	unreachable := errors.New("the server is unreachable")
	m.IssueToken = func(objects.TokenRequest) (objects.Token, error) { return objects.Token{}, unreachable }
	_, _, err = tokenFile(t.Context(), m, mount(nil, nil), &v1.ServiceAccountTokenProjection{Path: "x"}, mode)
	require.ErrorIs(t, err, unreachable)
	_, _, err = tokenFile(t.Context(), nil, mount(nil, nil), &v1.ServiceAccountTokenProjection{Path: "x"}, mode)
	require.ErrorContains(t, err, "no tokens")
}

const (
	one = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
	two = "-----BEGIN CERTIFICATE-----\nBBBB\n-----END CERTIFICATE-----\n"
)

func TestTrustBundle(t *testing.T) {
	m := &objects.Memory{}
	m.PutTrustBundle("n", "", nil, "\n"+two+"\n\n"+one+two)
	m.PutTrustBundle("s:a", "s", map[string]string{"a": "b"}, one)
	m.PutTrustBundle("s:b", "s", nil, two+one)
	m.PutTrustBundle("bad", "", nil, "x")
	mode := p(int32(0o644))
	get := func(b v1.ClusterTrustBundleProjection) (string, error) {
		b.Path = "ca"
		files, err := trustBundleFile(t.Context(), m, mount(nil, nil), &b, mode)
		return string(files["ca"].Data), err
	}
	for want, b := range map[string]v1.ClusterTrustBundleProjection{
		one + two: {Name: p("n")}, two + one: {SignerName: p("s"), LabelSelector: &metav1.LabelSelector{}},
		one: {SignerName: p("s"), LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}},
		"":  {Name: p("none"), Optional: p(true)},
	} {
		got, err := get(b)
		require.NoError(t, err)
		if want == two+one {
			want = one + two // bundles are ordered by their content
		}
		require.Equal(t, want, got)
	}
	got, err := get(v1.ClusterTrustBundleProjection{SignerName: p("s"), Optional: p(true)})
	require.NoError(t, err)
	require.Empty(t, got, "a missing selector matches no bundle")
	for want, b := range map[string]v1.ClusterTrustBundleProjection{
		`clustertrustbundle "none" not found`: {Name: p("none")},
		`no trust bundle of signer "s"`:       {SignerName: p("s")},
		"exactly one of name and":             {},
		"contains text that is not PEM":       {Name: p("bad")},
	} {
		_, err := get(b)
		require.ErrorContains(t, err, want)
	}
	for want, b := range map[string]*v1.ClusterTrustBundleProjection{
		`path: path "" is empty`: {Name: p("n")}, "exactly one of name and": {Path: "x", Name: p("n"), SignerName: p("s")},
	} {
		_, err := trustBundleFile(t.Context(), m, mount(nil, nil), b, mode)
		require.ErrorContains(t, err, want)
	}
	unreachable := errors.New("the server is unreachable")
	m.Fail = func(volume.Object) error { return unreachable }
	for _, b := range []v1.ClusterTrustBundleProjection{{Name: p("n"), Optional: p(true)}, {SignerName: p("s"), LabelSelector: &metav1.LabelSelector{}, Optional: p(true)}, {SignerName: p("s"), LabelSelector: &metav1.LabelSelector{}}} {
		_, err := get(b)
		require.ErrorIs(t, err, unreachable, "an unreadable bundle is not missing")
	}
	m.Fail = nil
	_, err = trustBundleFile(t.Context(), nil, mount(nil, nil), &v1.ClusterTrustBundleProjection{Path: "x"}, mode)
	require.ErrorContains(t, err, "no trust bundles")
	files, err := trustBundleFile(t.Context(), m, mount(nil, p(int64(7))), &v1.ClusterTrustBundleProjection{Path: "x", Name: p("n")}, mode)
	require.NoError(t, err)
	require.EqualValues(t, 0o600, files["x"].Mode)
}
