package request

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

func TestExpand(t *testing.T) {
	vars := map[string]string{"A": "x", "EMPTY": "", "NEST": "$(A)"}
	lookup := func(name string) (string, bool) { v, ok := vars[name]; return v, ok }
	for in, want := range map[string]string{
		"": "", "plain": "plain", "$(A)": "x", "-$(A)$(A)-": "-xx-", "$(EMPTY)": "", "$(NEST)": "$(A)",
		"$$(A)": "$(A)", "$$$(A)": "$x", "$$": "$", "$": "$", "a$": "a$", "$A": "$A", "$(B)": "$(B)", "$(A": "$(A", "$()": "$()",
		"$(A$(A)": "$(A$(A)", "$$$": "$$",
	} {
		require.Equal(t, want, expand(in, lookup), in)
	}
}

func FuzzExpand(f *testing.F) {
	for _, seed := range []string{"$(A)", "$$(A", "$", "($)$"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		unknown := func(string) (string, bool) { return "", false }
		got := expand(text, unknown)
		if !strings.Contains(text, "$$") {
			require.Equal(t, text, got, "unknown names stay as they are")
		}
	})
}

// 6.4: order, references, fields.
func TestEnv(t *testing.T) {
	pod := testPod("a")
	pod.Annotations = map[string]string{"b": "2", "a": "say \"1\""}
	pod.Spec.ServiceAccountName = "sa"
	field := func(name, path string) v1.EnvVar {
		return v1.EnvVar{Name: name, ValueFrom: &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{FieldPath: path}}}
	}
	c := v1.Container{Env: []v1.EnvVar{
		{Name: "A", Value: "1"}, {Name: "B", Value: "$(A)$(C)"}, {Name: "C", Value: "3"}, {Name: "A", Value: "$(A)1"},
		field("NAME", "metadata.name"), field("NS", "metadata.namespace"), field("UID", "metadata.uid"), field("SA", "spec.serviceAccountName"),
		field("APP", "metadata.labels['app']"), field("ANN", "metadata.annotations"), field("NONE", "metadata.annotations['x']"),
		field("NODE", "spec.nodeName"), field("IP", "status.podIP"), field("IPS", "status.podIPs"), field("HOST", "status.hostIP"), field("HOSTS", "status.hostIPs"),
	}}
	f := fields{nodeName: "node-1", hostIPs: []string{"192.0.2.1", "2001:db8::1"}, podIPs: []string{"10.0.0.2", "fd00::2"}}
	env, err := makeEnv(pod, &c, f)
	require.NoError(t, err)
	var got []string
	for _, kv := range env.keyValues() {
		got = append(got, kv.Key+"="+string(kv.Value))
	}
	require.Equal(t, []string{
		"A=11", "B=1$(C)", "C=3", "NAME=web", "NS=shop", "UID=0d1e", "SA=sa", "APP=web", "ANN=a=\"say \\\"1\\\"\"\nb=\"2\"", "NONE=",
		"NODE=node-1", "IP=10.0.0.2", "IPS=10.0.0.2,fd00::2", "HOST=192.0.2.1", "HOSTS=192.0.2.1,2001:db8::1",
	}, got)
	require.Equal(t, []string{"11", "$(X)"}, env.expandAll([]string{"$(A)", "$(X)"}))
	_, err = makeEnv(pod, &v1.Container{Env: []v1.EnvVar{field("X", "spec.unknown")}}, f)
	require.ErrorContains(t, err, "env X")
	_, err = makeEnv(pod, &v1.Container{Env: []v1.EnvVar{{Name: "X", ValueFrom: &v1.EnvVarSource{SecretKeyRef: &v1.SecretKeySelector{}}}}}, f)
	require.ErrorContains(t, err, "env X")
}

func TestOrderIPs(t *testing.T) {
	both := []string{"10.0.0.2", "fd00::2", "10.0.0.3"}
	require.Equal(t, []string{"10.0.0.2", "fd00::2"}, orderIPs(both, []string{"192.0.2.1"}))
	require.Equal(t, []string{"fd00::2", "10.0.0.2"}, orderIPs(both, []string{"2001:db8::1"}))
	require.Empty(t, orderIPs(nil, nil))
}
