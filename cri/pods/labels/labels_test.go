package labels_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/pods/labels"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestOfSandbox(t *testing.T) {
	meta := &runtimeapi.PodSandboxMetadata{Name: "web", Namespace: "shop", Uid: "1"}
	forged := func(id, uid, name, namespace string) *runtimeapi.PodSandbox {
		return &runtimeapi.PodSandbox{Id: id, Metadata: &runtimeapi.PodSandboxMetadata{Name: name, Namespace: namespace}, Labels: map[string]string{labels.PodUID: uid}}
	}
	pod, ok := labels.OfSandbox(forged("s", "1", "web", "shop"))
	require.True(t, ok)
	require.Equal(t, "shop/web(1)", pod.String())
	for name, sb := range map[string]*runtimeapi.PodSandbox{
		"a stranger's":   {Id: "s", Metadata: meta},
		"no metadata":    {Id: "s", Labels: map[string]string{labels.PodUID: "1"}},
		"nothing at all": nil,
		"no ID":          forged("", "1", "web", "shop"),
		"a path as ID":   forged("a/../../b", "1", "web", "shop"),
		"a path as UID":  forged("s", "../../etc", "web", "shop"),
		"a path as name": forged("s", "1", "../web", "shop"),
		"namespace ..":   forged("s", "1", "web", ".."),
	} {
		_, ok := labels.OfSandbox(sb)
		require.False(t, ok, name)
	}
}

func TestOfContainer(t *testing.T) {
	whole := func() *runtimeapi.Container {
		return &runtimeapi.Container{
			Id: "c", Metadata: &runtimeapi.ContainerMetadata{Name: "a"}, Image: &runtimeapi.ImageSpec{},
			Labels: map[string]string{
				labels.PodName: "web", labels.PodNamespace: "shop", labels.PodUID: "1", labels.ContainerName: "a",
			},
		}
	}
	pod, name, ok := labels.OfContainer(whole())
	require.True(t, ok)
	require.Equal(t, "shop/web(1)", pod.String())
	require.Equal(t, "a", name)
	for what, strip := range map[string]func(*runtimeapi.Container){
		"UID":      func(c *runtimeapi.Container) { delete(c.Labels, labels.PodUID) },
		"name":     func(c *runtimeapi.Container) { delete(c.Labels, labels.ContainerName) },
		"metadata": func(c *runtimeapi.Container) { c.Metadata = nil },
		"image":    func(c *runtimeapi.Container) { c.Image = nil },
		"ID":       func(c *runtimeapi.Container) { c.Id = "" },

		"a usable ID":        func(c *runtimeapi.Container) { c.Id = "x/../../../etc/y" },
		"a usable UID":       func(c *runtimeapi.Container) { c.Labels[labels.PodUID] = "../../etc" },
		"a usable name":      func(c *runtimeapi.Container) { c.Labels[labels.ContainerName] = ".." },
		"a usable pod":       func(c *runtimeapi.Container) { c.Labels[labels.PodName] = "../web" },
		"a usable namespace": func(c *runtimeapi.Container) { c.Labels[labels.PodNamespace] = "/shop" },
	} {
		c := whole()
		strip(c)
		_, _, ok := labels.OfContainer(c)
		require.False(t, ok, "without %s", what)
	}
}
