package request

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/pods/labels"
	"github.com/podwright/podwright/internal/podfacts"
)

// envOf builds a container and returns its variables as NAME=value.
func (h *harness) envOf(pod *v1.Pod, c *v1.Container) ([]string, error) {
	h.t.Helper()
	config, err := h.builder().Container(h.t.Context(), Instance{Pod: pod, Container: c, PodIPs: []string{"10.0.0.2", "fd00::2"}})
	var out []string
	for _, kv := range config.GetEnvs() {
		out = append(out, kv.Key+"="+string(kv.Value))
	}
	return out, err
}

func object(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "shop", Name: name}
}

func local(name string) v1.LocalObjectReference { return v1.LocalObjectReference{Name: name} }

func from(s v1.EnvVarSource) v1.EnvVar { return v1.EnvVar{Name: "X", ValueFrom: &s} }

// objects returns the objects that the tests' containers refer to.
func objects() *Memory {
	m := &Memory{}
	m.AddConfigMap(&v1.ConfigMap{ObjectMeta: object("conf"), Data: map[string]string{"B": "2", "A": "1", "key": "value", "empty": ""}})
	m.AddSecret(&v1.Secret{ObjectMeta: object("pass"), Data: map[string][]byte{"A": []byte("s1"), "word": {0xff, 'x'}}, StringData: map[string]string{"S": "text"}})
	return m
}

func withObjects(t *testing.T) (*harness, *Memory) {
	h, m := newHarness(t), objects()
	h.cfg.ConfigMaps, h.cfg.Secrets, h.cfg.Services, h.cfg.Volumes, h.cfg.SubPaths = m, m, m, m, m
	return h, m
}

// C45: a missing optional source is skipped; otherwise the error has the kubelet's text.
func TestEnvMissing(t *testing.T) {
	yes := new(true)
	for name, tc := range map[string]struct {
		c    v1.Container
		want string // "" means no variable and no error
	}{
		"optional config map":           {v1.Container{EnvFrom: []v1.EnvFromSource{{ConfigMapRef: &v1.ConfigMapEnvSource{LocalObjectReference: local("none"), Optional: yes}}}}, ""},
		"optional secret":               {v1.Container{EnvFrom: []v1.EnvFromSource{{SecretRef: &v1.SecretEnvSource{LocalObjectReference: local("none"), Optional: yes}}}}, ""},
		"config map":                    {v1.Container{EnvFrom: []v1.EnvFromSource{{ConfigMapRef: &v1.ConfigMapEnvSource{LocalObjectReference: local("none")}}}}, `envFrom[0]: configmap "none" not found`},
		"secret":                        {v1.Container{EnvFrom: []v1.EnvFromSource{{SecretRef: &v1.SecretEnvSource{LocalObjectReference: local("none")}}}}, `envFrom[0]: secret "none" not found`},
		"key of a config map":           {v1.Container{Env: []v1.EnvVar{from(v1.EnvVarSource{ConfigMapKeyRef: &v1.ConfigMapKeySelector{LocalObjectReference: local("conf"), Key: "no"}})}}, "env X: couldn't find key no in ConfigMap shop/conf"},
		"optional key":                  {v1.Container{Env: []v1.EnvVar{from(v1.EnvVarSource{ConfigMapKeyRef: &v1.ConfigMapKeySelector{LocalObjectReference: local("conf"), Key: "no", Optional: yes}})}}, ""},
		"optional key of no config map": {v1.Container{Env: []v1.EnvVar{from(v1.EnvVarSource{ConfigMapKeyRef: &v1.ConfigMapKeySelector{LocalObjectReference: local("none"), Key: "no", Optional: yes}})}}, ""},
		"config map of a key":           {v1.Container{Env: []v1.EnvVar{from(v1.EnvVarSource{ConfigMapKeyRef: &v1.ConfigMapKeySelector{LocalObjectReference: local("none"), Key: "no"}})}}, `env X: configmap "none" not found`},
		"key of a secret":               {v1.Container{Env: []v1.EnvVar{from(v1.EnvVarSource{SecretKeyRef: &v1.SecretKeySelector{LocalObjectReference: local("pass"), Key: "no"}})}}, "env X: couldn't find key no in Secret shop/pass"},
		"optional key of a secret":      {v1.Container{Env: []v1.EnvVar{from(v1.EnvVarSource{SecretKeyRef: &v1.SecretKeySelector{LocalObjectReference: local("pass"), Key: "no", Optional: yes}})}}, ""},
		"secret of a key":               {v1.Container{Env: []v1.EnvVar{from(v1.EnvVarSource{SecretKeyRef: &v1.SecretKeySelector{LocalObjectReference: local("none"), Key: "no"}})}}, `env X: secret "none" not found`},
		"no source":                     {v1.Container{Env: []v1.EnvVar{from(v1.EnvVarSource{})}}, "env X: valueFrom has no source"},
		"no source of all":              {v1.Container{EnvFrom: []v1.EnvFromSource{{Prefix: "A_"}}}, "envFrom[0]: no source is set"},
		"bad name":                      {v1.Container{Env: []v1.EnvVar{{Name: "a=b", Value: "x"}}}, "env a=b: not a valid environment variable name"},
		"no name":                       {v1.Container{Env: []v1.EnvVar{{Value: "x"}}}, "not a valid environment variable name"},
		"NUL":                           {v1.Container{Env: []v1.EnvVar{{Name: "a", Value: "x\x00y"}}}, "env a: value has a NUL byte"},
		"NUL first":                     {v1.Container{Env: []v1.EnvVar{{Name: "a", Value: "\x00y"}}}, "env a: value has a NUL byte"},
	} {
		t.Run(name, func(t *testing.T) {
			h, _ := withObjects(t)
			got, err := h.envOf(testPod("a"), &tc.c)
			require.Empty(t, got)
			if tc.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tc.want)
		})
	}
}

// A container that needs the node's addresses starts once they are available.
func TestNodeIPsComeLate(t *testing.T) {
	h := newHarness(t)
	var now []string
	h.cfg.Node.IPs, h.cfg.NodeIPs = nil, func() []string { return now }
	pod := testPod("a")
	c := &v1.Container{Env: []v1.EnvVar{from(v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{FieldPath: "status.hostIP"}})}}
	_, err := h.envOf(pod, c)
	require.ErrorContains(t, err, "the node's addresses are unavailable")
	now = []string{"fd00::1", "192.0.2.1"}
	got, err := h.envOf(pod, c)
	require.NoError(t, err)
	require.Equal(t, []string{"X=fd00::1"}, got)
	require.Equal(t, []string{"fd00::2", "10.0.0.2"}, h.builder().PodIPs(pod, []string{"10.0.0.2", "fd00::2"}))
	pod.Spec.HostNetwork = true
	require.Equal(t, now, h.builder().PodIPs(pod, nil))
	h.cfg.Node.IPs = []string{"192.0.2.9"}
	require.Equal(t, []string{"192.0.2.9"}, h.builder().PodIPs(pod, nil), "what is configured counts")
}

// AddSecret merges StringData into a copy and does not change its argument.
func TestMemoryCopiesSecrets(t *testing.T) {
	s := &v1.Secret{ObjectMeta: object("s"), Data: map[string][]byte{"k": []byte("old")}, StringData: map[string]string{"k": "new"}}
	m := &Memory{}
	m.AddSecret(s)
	require.Equal(t, "old", string(s.Data["k"]))
	got, err := m.Secret(t.Context(), "shop", "s")
	require.NoError(t, err)
	require.Equal(t, "new", string(got.Data["k"]))
}

// apiError is an API server's error with a reason.
type apiError struct{ reason metav1.StatusReason }

func (e apiError) Error() string { return "status " + string(e.reason) }

func (e apiError) Status() metav1.Status { return metav1.Status{Reason: e.reason} }

// getter returns one object or error, and counts the calls.
type getter struct {
	err   error
	calls int
}

func (g *getter) ConfigMap(context.Context, string, string) (*v1.ConfigMap, error) {
	g.calls++
	return &v1.ConfigMap{Data: map[string]string{"k": "v"}}, g.err
}

func (g *getter) Secret(context.Context, string, string) (*v1.Secret, error) {
	g.calls++
	return &v1.Secret{Data: map[string][]byte{"k": []byte("v")}}, g.err
}

// Optional ignores a missing object, but not a failed read.
func TestOptionalIsNotUnknown(t *testing.T) {
	h := newHarness(t)
	c := &v1.Container{Env: []v1.EnvVar{from(v1.EnvVarSource{ConfigMapKeyRef: &v1.ConfigMapKeySelector{LocalObjectReference: local("conf"), Key: "k", Optional: new(true)}})}}
	for _, tc := range []struct {
		err error
		ok  bool
	}{
		{fmt.Errorf("get: %w", apiError{metav1.StatusReasonNotFound}), true},
		{apiError{metav1.StatusReasonForbidden}, false},
		{context.DeadlineExceeded, false},
	} {
		h.cfg.ConfigMaps = &getter{err: tc.err}
		_, err := h.envOf(testPod("a"), c)
		require.Equal(t, tc.ok, err == nil, tc.err)
		if !tc.ok {
			require.ErrorIs(t, err, tc.err)
		}
	}
	g := &getter{}
	h.cfg.ConfigMaps = g
	c.Env = append(c.Env, c.Env[0], c.Env[0])
	c.EnvFrom = []v1.EnvFromSource{{ConfigMapRef: &v1.ConfigMapEnvSource{LocalObjectReference: local("conf")}}}
	_, err := h.envOf(testPod("a"), c)
	require.NoError(t, err)
	require.Equal(t, 1, g.calls, "all variables are from one version of the object")
	h.cfg.Secrets = g
	word := from(v1.EnvVarSource{SecretKeyRef: &v1.SecretKeySelector{LocalObjectReference: local("pass"), Key: "k"}})
	got, err := h.envOf(testPod("a"), &v1.Container{
		Env: []v1.EnvVar{word, word}, EnvFrom: []v1.EnvFromSource{{SecretRef: &v1.SecretEnvSource{LocalObjectReference: local("pass")}}},
	})
	require.NoError(t, err)
	require.Equal(t, []string{"k=v", "X=v"}, got)
	require.Equal(t, 2, g.calls, "so it is with secrets")

	h.cfg.ConfigMaps = nil
	_, err = h.envOf(testPod("a"), &v1.Container{Env: c.Env})
	require.NoError(t, err)
	c.Env[0].ValueFrom.ConfigMapKeyRef.Optional = nil
	_, err = h.envOf(testPod("a"), &v1.Container{Env: c.Env})
	require.ErrorContains(t, err, "no config maps")
}

// Keys that are not valid names are skipped; other keys are used.
func TestEnvBadKeys(t *testing.T) {
	h, m := withObjects(t)
	m.AddConfigMap(&v1.ConfigMap{ObjectMeta: object("odd"), Data: map[string]string{"good": "1", "a=b": "2", "tab\t": "3", "1.dot-ted": "4", "del\x7f": "5", "\xe9": "6", " ~": "7"}})
	got, err := h.envOf(testPod("a"), &v1.Container{EnvFrom: []v1.EnvFromSource{{ConfigMapRef: &v1.ConfigMapEnvSource{LocalObjectReference: local("odd")}}}})
	require.NoError(t, err)
	require.Equal(t, []string{" ~=7", "1.dot-ted=4", "good=1"}, got)
	require.Equal(t, []string{"InvalidEnvironmentVariableNames"}, h.takeEvents())
	m.AddConfigMap(&v1.ConfigMap{ObjectMeta: object("short"), Data: map[string]string{"=": "1"}})
	got, err = h.envOf(testPod("a"), &v1.Container{EnvFrom: []v1.EnvFromSource{{ConfigMapRef: &v1.ConfigMapEnvSource{LocalObjectReference: local("short")}}}})
	require.NoError(t, err)
	require.Empty(t, got)
	require.Len(t, h.takeEvents(), 1, "a name of one letter is told of, too")
	m.AddSecret(&v1.Secret{ObjectMeta: object("nul"), Data: map[string][]byte{"k": []byte("top\x00secret")}})
	_, err = h.envOf(testPod("a"), &v1.Container{EnvFrom: []v1.EnvFromSource{{SecretRef: &v1.SecretEnvSource{LocalObjectReference: local("nul")}}}})
	require.ErrorIs(t, err, errNUL)
	require.NotContains(t, err.Error(), "top")
}

// The event about invalid names has a bounded size.
func TestEventOfBadKeys(t *testing.T) {
	h, m := withObjects(t)
	var message string
	h.cfg.Event = func(_ v1.ObjectReference, _, _, text string) { message = text }
	for name, tc := range map[string]struct {
		prefix string
		length int
		told   bool
	}{"as long as may be": {"", maxBadNames, true}, "longer": {"", maxBadNames + 1, false}, "longer by the prefix": {"p", maxBadNames, false}} {
		key := strings.Repeat("=", tc.length)
		m.AddConfigMap(&v1.ConfigMap{ObjectMeta: object("long"), Data: map[string]string{key: ""}})
		_, err := h.envOf(testPod("a"), &v1.Container{EnvFrom: []v1.EnvFromSource{{Prefix: tc.prefix, ConfigMapRef: &v1.ConfigMapEnvSource{LocalObjectReference: local("long")}}}})
		require.NoError(t, err)
		require.Contains(t, message, "from the EnvFrom configMap "+testPod("a").Namespace+"/long were skipped")
		require.Equal(t, tc.told, strings.Contains(message, key), name)
	}
}

// The container's own variables override device variables.
func TestDevices(t *testing.T) {
	h := newHarness(t)
	c := &v1.Container{
		Name: "a", Env: []v1.EnvVar{{Name: "GPU", Value: "own$(OTHER)"}},
		Resources: v1.ResourceRequirements{Limits: quantities("example.com/gpu", "1")},
	}
	pod := testPod()
	_, err := h.envOf(pod, c)
	require.ErrorContains(t, err, `"example.com/gpu"`, "no manager allocates it")
	h.cfg.Devices = func(context.Context, *v1.Pod, *v1.Container) (Devices, error) {
		return Devices{
			Devices: []*runtimeapi.Device{{HostPath: "/dev/gpu0", ContainerPath: "/dev/gpu0", Permissions: "rw"}}, CDI: []string{"example.com/gpu=0"},
			Mounts:      []*runtimeapi.Mount{{ContainerPath: "/lib/gpu", HostPath: "/opt/gpu"}},
			Env:         []v1.EnvVar{{Name: "GPU", Value: "0"}, {Name: "OTHER", Value: "1"}},
			Annotations: map[string]string{"gpu": "0", labels.AnnotationRestartCount: "9"},
		}, nil
	}
	config, err := h.builder().Container(t.Context(), Instance{Pod: pod, Container: c})
	require.NoError(t, err)
	require.Equal(t, "/dev/gpu0", config.Devices[0].HostPath)
	require.Equal(t, "example.com/gpu=0", config.CDIDevices[0].Name)
	require.Equal(t, "/lib/gpu", config.Mounts[0].ContainerPath)
	require.Equal(t, "GPU", config.Envs[0].Key)
	require.Equal(t, "own1", string(config.Envs[0].Value))
	require.Equal(t, "0", config.Annotations["gpu"])
	require.Equal(t, "0", config.Annotations[labels.AnnotationRestartCount])
	h.cfg.Devices = func(context.Context, *v1.Pod, *v1.Container) (Devices, error) {
		return Devices{Env: []v1.EnvVar{{Name: "HUGE", Value: strings.Repeat("x", podfacts.MaxExecString)}}}, nil
	}
	_, err = h.envOf(pod, c)
	require.ErrorContains(t, err, "variable HUGE of a device: expands to more than")
	h.cfg.Devices = nil
	_, err = h.envOf(pod, &v1.Container{Name: "a", Resources: v1.ResourceRequirements{
		Limits: quantities("kubernetes.io/x", "1", "node.kubernetes.io/y", "1", "hugepages-2Mi", "2Mi", "example.com/gpu", "0"),
	}})
	require.NoError(t, err, "nothing that a plugin would give out")
	broken := errors.New("plugin gone")
	h.cfg.Devices = func(context.Context, *v1.Pod, *v1.Container) (Devices, error) { return Devices{}, broken }
	_, err = h.envOf(pod, c)
	require.ErrorIs(t, err, broken)
	h.cfg.Devices = nil
	c.Resources = v1.ResourceRequirements{Claims: []v1.ResourceClaim{{Name: "claim"}}}
	_, err = h.envOf(pod, c)
	require.ErrorContains(t, err, `"claim"`)
}
