package pods

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/cri/images"
	"github.com/podwright/podwright/cri/pods/request"
)

// Bad input fails each stage of a start with the documented reason and an event on the container.
// It does not affect the second container of the pod, and correcting it lets the container start.
// The tests of package request cover further bad input.
func TestBadInput(t *testing.T) {
	volumes := &request.Memory{}
	fix := func(c *v1.Container) { *c = testPod("a").Spec.Containers[0] }
	for _, tc := range []struct {
		name   string
		bad    func(c *v1.Container)
		fix    func(c *v1.Container)
		reason string
		text   string
		event  string
	}{
		{"image name", func(c *v1.Container) { c.Image = "UPPER" }, fix, images.ReasonInvalidImageName, "UPPER", "InspectFailed"}, // C25
		{"missing secret", func(c *v1.Container) {
			c.EnvFrom = []v1.EnvFromSource{{SecretRef: &v1.SecretEnvSource{LocalObjectReference: v1.LocalObjectReference{Name: "key"}}}}
		}, func(*v1.Container) {
			volumes.AddSecret(&v1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "key"}})
		}, ReasonCreateContainerConfigError, `secret "key" not found`, "Failed"},
		{"no such volume", func(c *v1.Container) {
			c.VolumeMounts = []v1.VolumeMount{{Name: "w", MountPath: "/w"}}
		}, fix, ReasonCreateContainerConfigError, `"w"`, "Failed"},
		{"root", func(c *v1.Container) { // C29
			c.SecurityContext = &v1.SecurityContext{RunAsNonRoot: new(true)}
		}, fix, ReasonCreateContainerConfigError, "container has runAsNonRoot", "Failed"},
		{"capability that the runtime refuses", func(c *v1.Container) {
			c.SecurityContext = &v1.SecurityContext{Capabilities: &v1.Capabilities{Add: []v1.Capability{"NO_SUCH"}}}
		}, fix, ReasonCreateContainerError, `unknown capability "NO_SUCH"`, "Failed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rt, err := fake.New(fake.Config{Intercept: refuseUnknownCapability})
			require.NoError(t, err)
			defer rt.Close()
			var events []string
			manager, err := images.New(images.Config{Service: rt, QPS: -1, Event: func(ref v1.ObjectReference, _, reason, _ string) {
				events = append(events, reason+" "+ref.FieldPath)
			}})
			require.NoError(t, err)
			h := harnessOn(t, rt, Config{RuntimeName: "fake", Images: manager, Inputs: request.Inputs{Volumes: volumes, Secrets: volumes}})
			pod := testPod("a", "b")
			tc.bad(&pod.Spec.Containers[0])
			require.Error(t, h.sync(pod).Err())
			failure := h.m.StartFailures(pod.UID)["a"]
			require.Equal(t, tc.reason, failure.Reason)
			require.Contains(t, failure.Message, tc.text)
			require.Contains(t, append(events, h.takeEvents()...), tc.event+" spec.containers{a}")
			require.Equal(t, tc.reason == ReasonCreateContainerError, strings.Contains(strings.Join(h.runtime.take(), " "), "CreateContainer a/"))
			require.Len(t, h.status(pod).Running(), 1)
			tc.fix(&pod.Spec.Containers[0])
			require.Len(t, h.mustSync(pod).Running(), 2)
			require.Empty(t, h.m.StartFailures(pod.UID))
		})
	}
}

// refuseUnknownCapability simulates a runtime that supports one capability. Some runtimes refuse
// others, some ignore them.
func refuseUnknownCapability(_ context.Context, _ string, request any) error {
	create, ok := request.(*runtimeapi.CreateContainerRequest)
	if !ok {
		return nil
	}
	for _, name := range create.Config.Linux.SecurityContext.GetCapabilities().GetAddCapabilities() {
		if name != "NET_ADMIN" {
			return status.Errorf(codes.Unknown, "unknown capability %q", name)
		}
	}
	return nil
}

// C47: events for resolver settings that a pod does not get are recorded once, when its sandbox
// is created, and not again for each container.
func TestResolverEventsComeOnce(t *testing.T) {
	h := newHarness(t, fake.Config{Programs: programs(map[string]fake.Program{"a": fake.Exit(1)})})
	pod := testPod("a", "b")
	pod.Spec.DNSPolicy = v1.DNSClusterFirst
	pod.Spec.DNSConfig = &v1.PodDNSConfig{Nameservers: []string{"192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4"}}
	resolver := func() (out []string) {
		for _, e := range h.takeEvents() {
			if strings.Contains(e, "DNS") {
				out = append(out, e)
			}
		}
		return out
	}
	all := []string{"MissingClusterDNS ", "MissingClusterDNS ", "DNSConfigForming "} // the first is on the Node
	first := h.mustSync(pod)
	require.Equal(t, all, resolver())
	waitExited(t, h, pod, 1)
	require.EqualValues(t, 1, h.mustSync(pod).Newest("a").RestartCount)
	require.Empty(t, resolver())
	require.NoError(t, h.runtime.RuntimeService.StopPodSandbox(t.Context(), first.Sandboxes[0].ID))
	h.sync(pod)
	require.Equal(t, all, resolver(), "another sandbox, another word")
}

// Bad input for the sandbox is refused with its field before any runtime call. It affects the
// whole pod but no further pod, and correcting it lets the pod start.
func TestBadSandboxInput(t *testing.T) {
	handler := func(err error) func(context.Context, *v1.Pod) (string, error) {
		return func(context.Context, *v1.Pod) (string, error) { return "", err }
	}
	classed := func(p *v1.Pod) { p.Spec.RuntimeClassName = new("gvisor") }
	for name, tc := range map[string]struct {
		bad     func(*v1.Pod)
		handler func(context.Context, *v1.Pod) (string, error)
		at      Action
		want    string
	}{
		"port":              {func(p *v1.Pod) { p.Spec.Containers[1].Ports = []v1.ContainerPort{{ContainerPort: -1}} }, nil, ActionConfigPodSandbox, "spec.containers[1].ports[0].containerPort: -1 is not a port"},
		"no runtime class":  {classed, nil, ActionCreatePodSandbox, `spec.runtimeClassName: "gvisor": this agent has no runtime classes`},
		"not among classes": {classed, handler(errors.New("not found")), ActionCreatePodSandbox, `spec.runtimeClassName: "gvisor": not found`},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, fake.Config{})
			h.cfg.RuntimeHandler = tc.handler
			h.restart()
			pod, other := testPod("a", "b"), testPod("c")
			other.UID, other.Name = "2", "other"
			tc.bad(pod)
			result := h.sync(pod)
			require.ErrorContains(t, result.Err(), tc.want)
			require.Equal(t, tc.at, result.Entries[len(result.Entries)-1].Action)
			require.Equal(t, []string{"FailedCreatePodSandBox "}, h.takeEvents())
			require.Empty(t, h.runtime.take())
			require.Len(t, h.mustSync(other).Running(), 1)
			pod.Spec.Containers[1].Ports = nil
			h.cfg.RuntimeHandler = handler(nil)
			h.restart()
			require.Len(t, h.mustSync(pod).Running(), 2)
		})
	}
}
