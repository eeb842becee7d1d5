package agent

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/admission"
)

// A pod that is meant for another node is refused.
func TestOtherNode(t *testing.T) {
	g := &ground{}
	g.cfg.Flags.NodeName, g.cfg.Flags.NodeLabels = "n", map[string]string{"room": "3"}
	for _, test := range []struct {
		selector map[string]string
		want     string
	}{
		{nil, ""},
		{map[string]string{"room": "3"}, ""},
		{map[string]string{v1.LabelOSStable: runtime.GOOS, v1.LabelArchStable: runtime.GOARCH, v1.LabelHostname: "n"}, ""},
		{map[string]string{v1.LabelOSStable: "windows"}, `spec.nodeSelector[kubernetes.io/os]: this node is not labelled "windows"`},
		{map[string]string{v1.LabelHostname: "m"}, `spec.nodeSelector[kubernetes.io/hostname]: this node is not labelled "m"`},
		{map[string]string{"disk": "ssd"}, `spec.nodeSelector[disk]: this node is not labelled "ssd"`},
	} {
		pod := podOf("1", v1.RestartPolicyAlways, "a")
		pod.Spec.NodeSelector = test.selector
		errs := admission.OtherNode(pod, g.localNode())
		if test.want == "" {
			require.Empty(t, errs)
			continue
		}
		require.Len(t, errs, 1)
		require.EqualError(t, errs[0], test.want)
	}
	pod := podOf("1", v1.RestartPolicyAlways, "a")
	affinity := func(room string) *v1.Affinity {
		return &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{
			NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchExpressions: []v1.NodeSelectorRequirement{{Key: "room", Operator: v1.NodeSelectorOpIn, Values: []string{room}}}}},
		}}}
	}
	pod.Spec.Affinity = affinity("3")
	require.Empty(t, admission.OtherNode(pod, g.localNode()))
	pod.Spec.Affinity = affinity("4")
	require.EqualError(t, errors.Join(admission.OtherNode(pod, g.localNode())...), "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution: does not match this node")
}

// A pod with users of its own shares none of what only the node's may use.
func TestOwnUsersWithTheNodesNamespaces(t *testing.T) {
	for field, change := range map[string]func(*v1.PodSpec){
		"hostPID": func(s *v1.PodSpec) { s.HostPID = true },
		"hostIPC": func(s *v1.PodSpec) { s.HostIPC = true },
	} {
		pod := podOf("1", v1.RestartPolicyAlways, "a")
		pod.Spec.HostNetwork = false
		change(&pod.Spec)
		require.Empty(t, unsupported(pod), field)
		own := false
		pod.Spec.HostUsers = &own
		errs := unsupported(pod)
		require.Len(t, errs, 1, field)
		require.ErrorContains(t, errs[0], "spec."+field+": with hostUsers: false")
	}
}

// What only some runtimes do has reasons of its own where it is not there.
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

// A reference that names no image keeps nobody from removing images; one that cannot
// be looked up does.
func TestImagesOfVolumesInUse(t *testing.T) {
	fails := atomic.Bool{}
	inWorld(t, fake.Config{Intercept: func(_ context.Context, _ string, request any) error {
		r, ok := request.(*runtimeapi.ImageStatusRequest)
		switch {
		case ok && fails.Load():
			return errors.New("no answer")
		case ok && r.GetImage().GetImage() == "UPPER": // as some runtimes answer
			return errors.New("not a name")
		}
		return nil
	}}, func(w *world) {
		pod := podOf("1", v1.RestartPolicyAlways, "a")
		for _, reference := range []string{"UPPER", "a", "", "data:1"} {
			pod.Spec.Volumes = append(pod.Spec.Volumes, v1.Volume{Name: "v" + reference, VolumeSource: v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: reference}}})
		}
		ref, err := w.runtime.PullImage(w.t.Context(), &runtimeapi.ImageSpec{Image: "data:1"}, nil, nil)
		require.NoError(t, err)
		w.set(pod)
		w.start()
		w.sleep(time.Second)
		used, err := w.agent.imagesInUse(w.t.Context())
		require.NoError(t, err)
		require.Contains(t, used, ref)
		fails.Store(true)
		_, err = w.agent.imagesInUse(w.t.Context())
		require.ErrorContains(t, err, "image of volume")
	})
}

func TestRefusedPodsDoNotRun(t *testing.T) {
	inWorld(t, fake.Config{}, func(w *world) {
		pod := podOf("1", v1.RestartPolicyAlways, "a")
		pod.Spec.NodeSelector = map[string]string{"disk": "ssd"}
		sysctl := podOf("2", v1.RestartPolicyAlways, "b")
		sysctl.Spec.SecurityContext = &v1.PodSecurityContext{Sysctls: []v1.Sysctl{{Name: "kernel.msgmax", Value: "1"}}}
		w.set(pod, sysctl, podOf("3", v1.RestartPolicyAlways, "c"))
		w.start()
		w.sleep(5 * time.Second)
		require.Equal(t, map[string][]uint32{"c": {0}}, w.running())
		require.Contains(t, w.agent.statuses.Get("1").Message, "spec.nodeSelector[disk]")
		require.Contains(t, w.agent.statuses.Get("2").Message, "spec.securityContext.sysctls[0]: kernel.msgmax")
		require.Equal(t, "SysctlForbidden", w.agent.statuses.Get("2").Reason)
	})
}
