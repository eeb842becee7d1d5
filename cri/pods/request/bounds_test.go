package request

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podfacts"
)

// The size limit is exact to the byte, and a variable that is set again counts only once.
func TestEnvironmentSize(t *testing.T) {
	e := &environment{values: map[string]string{}}
	most := podfacts.MaxExecString - 1
	for left, i := podfacts.MaxExecTotal, 0; left > 0; i++ {
		name := fmt.Sprintf("%03d", i)
		length := min(most-len(name), left-len(name)-len("=\x00"))
		left -= len(name) + length + len("=\x00")
		require.NoError(t, e.set(name, strings.Repeat("x", length)), left)
	}
	require.Equal(t, podfacts.MaxExecTotal, e.size)
	require.ErrorIs(t, e.set("a", ""), errLargeEnvironment)
	require.NoError(t, e.set("000", strings.Repeat("y", most-3)))
	require.NoError(t, e.set("000", strings.Repeat("y", most-6)))
	require.NoError(t, e.set("a", ""))
	require.ErrorIs(t, e.set("000", strings.Repeat("y", most-5)), errLargeEnvironment)

	e.size -= len("abc\x00") // an argument can take its place, including the final NUL
	_, err := e.expandAll("args", []string{"abc"})
	require.NoError(t, err)
	require.Equal(t, podfacts.MaxExecTotal, e.size)
	_, err = e.expandAll("args", []string{""})
	require.ErrorIs(t, err, errLargeEnvironment)
}

// References that multiply are refused with their field before memory is allocated: a spec of a
// few hundred bytes must not expand to gigabytes.
func TestMultiplying(t *testing.T) {
	h, objects := withObjects(t)
	objects.AddConfigMap(&v1.ConfigMap{ObjectMeta: object("bare")})
	doubled := func(name, value string, times, levels int) []v1.EnvVar {
		out := []v1.EnvVar{{Name: name + "0", Value: value}}
		for i := range levels {
			out = append(out, v1.EnvVar{Name: fmt.Sprint(name, i+1), Value: strings.Repeat(fmt.Sprintf("$(%s%d)", name, i), times)})
		}
		return out
	}
	kilo := strings.Repeat("x", 1000)
	most := strings.Repeat("x", podfacts.MaxExecString)
	many := func() (out []string) {
		for range 18 {
			out = append(out, strings.Repeat("$(E1)", 12))
		}
		return out
	}
	set := func(env []v1.EnvVar, change func(c *v1.Container)) v1.Container {
		c := v1.Container{Name: "b", Env: env}
		if change != nil {
			change(&c)
		}
		return c
	}
	for name, tc := range map[string]struct {
		container v1.Container
		fails     string
	}{
		"value":          {set(doubled("E", kilo, 10, 11), nil), "spec.containers[1].env[3].value: expands to more than 131070 bytes"},
		"long value":     {set([]v1.EnvVar{{Name: "E", Value: most[:len(most)-1]}}, nil), "spec.containers[1].env[0].value: expands"},
		"as long as can": {set([]v1.EnvVar{{Name: "E", Value: most[:len(most)-2]}}, nil), ""},
		"all values":     {set(append(doubled("E", kilo, 10, 2), doubled("F", strings.Repeat("$(E2)", 1), 1, 20)...), nil), "spec.containers[1].env[22].value: the container's variables"},
		"argument":       {set(doubled("E", kilo, 10, 1), func(c *v1.Container) { c.Args = []string{"a", strings.Repeat("$(E1)", 14)} }), "spec.containers[1].args[1]: expands to more"},
		"arguments":      {set(doubled("E", kilo, 10, 1), func(c *v1.Container) { c.Args = many() }), "spec.containers[1].args[17]: the container's variables, command and arguments"},
		"command":        {set(doubled("E", kilo, 10, 1), func(c *v1.Container) { c.Command = many() }), "spec.containers[1].command[17]: the container's"},
		"sub path": {set(doubled("E", kilo, 1, 1), func(c *v1.Container) {
			c.VolumeMounts = []v1.VolumeMount{{Name: "v", MountPath: "/v", SubPathExpr: strings.Repeat("$(E1)", 5)}}
		}), "volumeMounts[0]: subPathExpr: expands to more than 4095 bytes"},
		"prefix": {set(nil, func(c *v1.Container) {
			c.EnvFrom = []v1.EnvFromSource{{Prefix: most + "x", ConfigMapRef: &v1.ConfigMapEnvSource{LocalObjectReference: local("conf")}}}
		}), "envFrom[0]: prefix: expands"},
		"key": {set(nil, func(c *v1.Container) {
			c.EnvFrom = []v1.EnvFromSource{{Prefix: most[:len(most)-2], ConfigMapRef: &v1.ConfigMapEnvSource{LocalObjectReference: local("conf")}}}
		}), "envFrom[0]: key A of configMap shop/conf: expands"},
		"prefix of nothing": {set(nil, func(c *v1.Container) {
			c.EnvFrom = []v1.EnvFromSource{{Prefix: most, ConfigMapRef: &v1.ConfigMapEnvSource{LocalObjectReference: local("bare")}}}
		}), ""},
		"missing names": {set(nil, func(c *v1.Container) {
			expr := ""
			for i := range 1000 {
				expr += fmt.Sprintf("$(M%04d)", i)
			}
			c.VolumeMounts = []v1.VolumeMount{{Name: "v", MountPath: "/v", SubPathExpr: expr}}
		}), "missing value for M0000"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := testPod("a")
			pod.Spec.Containers = append(pod.Spec.Containers, tc.container)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := h.envOf(pod, &pod.Spec.Containers[1])
			runtime.ReadMemStats(&after)
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(16<<20))
			if tc.fails == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tc.fails)
			require.Less(t, len(err.Error()), 300)
		})
	}
}

// The pod's annotations are sent with each mounted image, up to a bound.
func TestAnnotationsOfManyImages(t *testing.T) {
	h := newHarness(t)
	pod := testPod("a")
	pod.Annotations = map[string]string{"a": strings.Repeat("x", maxImageAnnotations/32-len("a"))}
	pod.Spec.Volumes = []v1.Volume{{Name: "i", VolumeSource: v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: "img"}}}}
	c := &pod.Spec.Containers[0]
	in := Instance{Pod: pod, Container: c, ImageVolumes: map[string]Image{"i": {Ref: "img"}}}
	for i := range 32 {
		c.VolumeMounts = append(c.VolumeMounts, v1.VolumeMount{Name: "i", MountPath: fmt.Sprint("/", i)})
	}
	_, err := h.builder().Container(t.Context(), in)
	require.NoError(t, err)
	c.VolumeMounts = append(c.VolumeMounts, v1.VolumeMount{Name: "i", MountPath: "/last"})
	_, err = h.builder().Container(t.Context(), in)
	require.ErrorContains(t, err, `volumeMounts[32]: volume "i": the pod's annotations`)
}

// Service variables do not count against the container's limit: any number of services lets it
// start.
func TestManyServices(t *testing.T) {
	h, m := withObjects(t)
	var all []*v1.Service
	for i := range 10000 {
		all = append(all, service("shop", fmt.Sprint("service-", i), "10.0.0.1", v1.ServicePort{Port: 1}))
	}
	m.SetServices(all...)
	pod := testPod("a")
	env, err := h.envOf(pod, &pod.Spec.Containers[0])
	require.NoError(t, err)
	require.Greater(t, len(strings.Join(env, " ")), podfacts.MaxExecTotal)
}
