package agent

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/admission"
)

func TestUnsupportedNamesTheField(t *testing.T) {
	pod := &v1.Pod{Spec: v1.PodSpec{
		RuntimeClassName: new("gvisor"),
		InitContainers:   []v1.Container{{Name: "i", StartupProbe: passing()}},
		Containers: []v1.Container{{}, {
			LivenessProbe: &v1.Probe{}, ReadinessProbe: passing(), StartupProbe: &v1.Probe{PeriodSeconds: -1},
			VolumeMounts: []v1.VolumeMount{{SubPath: "a"}, {SubPathExpr: "b"}},
			EnvFrom:      []v1.EnvFromSource{{}}, VolumeDevices: []v1.VolumeDevice{{}},
			Env: []v1.EnvVar{
				{ValueFrom: &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{}}},
				{ValueFrom: &v1.EnvVarSource{SecretKeyRef: &v1.SecretKeySelector{}}},
				{ValueFrom: &v1.EnvVarSource{FileKeyRef: &v1.FileKeySelector{}}},
			},
			Resources: v1.ResourceRequirements{Limits: v1.ResourceList{"example.com/gpu": resource.MustParse("1")}},
		}},
	}}
	text := errors.Join(new(Config).notSupported(pod)...).Error()
	require.NotContains(t, errors.Join(unsupported(pod)...).Error(), "example.com/gpu", "extended resources are checked elsewhere")
	for _, field := range []string{
		"spec.initContainers[0].startupProbe", "spec.containers[1].livenessProbe: a handler is required", "spec.containers[1].startupProbe.periodSeconds: -1",
		"spec.containers[1].volumeDevices", "spec.containers[1].resources.limits[example.com/gpu]", "spec.runtimeClassName",
	} {
		require.Contains(t, text, field)
	}
	for _, field := range []string{"env", "volumeMounts", "readinessProbe"} {
		require.NotContains(t, text, field)
	}
	require.Empty(t, unsupported(&v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c"}}}}))
}

// Selectors match the node's own labels and the labels of the flags.
func TestOtherNode(t *testing.T) {
	cfg := new(Config)
	cfg.Flags.NodeName, cfg.Flags.NodeLabels = "n", map[string]string{"room": "3"}
	pod := podOf("1", v1.RestartPolicyAlways, "a")
	pod.Spec.NodeSelector = map[string]string{"room": "3", v1.LabelOSStable: runtime.GOOS, v1.LabelArchStable: runtime.GOARCH, v1.LabelHostname: "n"}
	require.Empty(t, admission.OtherNode(pod, localNode(cfg)))
	pod.Spec.NodeSelector = map[string]string{v1.LabelHostname: "m"}
	require.Len(t, admission.OtherNode(pod, localNode(cfg)), 1)
}

// A pod with a user namespace cannot share the node's PID or IPC namespace.
func TestUserNamespaceExcludesHostNamespaces(t *testing.T) {
	for field, change := range map[string]func(*v1.PodSpec){
		"hostPID": func(s *v1.PodSpec) { s.HostPID = true },
		"hostIPC": func(s *v1.PodSpec) { s.HostIPC = true },
	} {
		pod := podOf("1", v1.RestartPolicyAlways, "a")
		pod.Spec.HostNetwork = false
		change(&pod.Spec)
		require.Empty(t, unsupported(pod), field)
		pod.Spec.HostUsers = new(false)
		errs := unsupported(pod)
		require.Len(t, errs, 1, field)
		require.ErrorContains(t, errs[0], "spec."+field+": with hostUsers: false")
	}
}

// Features that only some runtimes have are rejected with their own reasons.
func TestLackingRuntime(t *testing.T) {
	able := cri.Features{SupplementalGroupsPolicy: true, UserNamespacesHostNetwork: true}
	require.NoError(t, lacking(podOf("1", v1.RestartPolicyAlways, "a"), cri.Features{}))
	for reason, change := range map[string]func(*v1.PodSpec){
		"SupplementalGroupsPolicyNotSupported": func(s *v1.PodSpec) {
			s.SecurityContext = &v1.PodSecurityContext{SupplementalGroupsPolicy: new(v1.SupplementalGroupsPolicyStrict)}
		},
		"PodFeatureUnsupported": func(s *v1.PodSpec) { s.HostNetwork, s.HostUsers = true, new(false) },
	} {
		pod := podOf("1", v1.RestartPolicyAlways, "a")
		change(&pod.Spec)
		require.NoError(t, lacking(pod, able))
		var rejection *syncloop.Rejection
		require.ErrorAs(t, lacking(pod, cri.Features{}), &rejection)
		require.Equal(t, reason, rejection.Reason)
	}
}

// An invalid image reference does not stop image garbage collection; a failed lookup does.
func TestImagesOfVolumesInUse(t *testing.T) {
	var fails atomic.Bool
	inWorld(t, fake.Config{Intercept: func(_ context.Context, _ string, request any) error {
		r, ok := request.(*runtimeapi.ImageStatusRequest)
		switch {
		case ok && fails.Load():
			return errors.New("no answer")
		case ok && r.GetImage().GetImage() == "UPPER": // as some runtimes do
			return errors.New("not a name")
		}
		return nil
	}}, func(w *world) {
		pod := podOf("1", v1.RestartPolicyAlways, "a")
		for i, reference := range []string{"UPPER", "a", "", "data:1"} {
			pod.Spec.Volumes = append(pod.Spec.Volumes, v1.Volume{Name: fmt.Sprint("v", i), VolumeSource: v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: reference}}})
		}
		ref, err := w.runtime.PullImage(w.t.Context(), &runtimeapi.ImageSpec{Image: "data:1"}, nil, nil)
		require.NoError(t, err)
		w.set(pod)
		w.startFor(time.Second)
		used, err := imagesInUse(w.t.Context(), w.runtime, w.agent.images, w.agent.lifecycle.current())
		require.NoError(t, err)
		require.Contains(t, used, ref)
		fails.Store(true)
		_, err = imagesInUse(w.t.Context(), w.runtime, w.agent.images, w.agent.lifecycle.current())
		require.ErrorContains(t, err, "image of volume")
	})
}
