package agent

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cri/fake"
)

// A pod that is meant for another node is refused.
func TestOtherNode(t *testing.T) {
	for _, test := range []struct {
		selector map[string]string
		want     string
	}{
		{nil, ""},
		{map[string]string{v1.LabelOSStable: runtime.GOOS, v1.LabelArchStable: runtime.GOARCH, v1.LabelHostname: "n"}, ""},
		{map[string]string{v1.LabelOSStable: "windows"}, `spec.nodeSelector[kubernetes.io/os]: this node is not labelled "windows"`},
		{map[string]string{v1.LabelHostname: "m"}, `spec.nodeSelector[kubernetes.io/hostname]: this node is not labelled "m"`},
		{map[string]string{"disk": "ssd"}, `spec.nodeSelector[disk]: this node is not labelled "ssd"`},
	} {
		pod := podOf("1", v1.RestartPolicyAlways, "a")
		pod.Spec.NodeSelector = test.selector
		errs := otherNode(pod, "n")
		if test.want == "" {
			require.Empty(t, errs)
			continue
		}
		require.Len(t, errs, 1)
		require.EqualError(t, errs[0], test.want)
	}
	pod := podOf("1", v1.RestartPolicyAlways, "a")
	pod.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{}}}
	require.Len(t, otherNode(pod, "n"), 1)
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
		require.Contains(t, w.agent.statuses.get("1").Message, "spec.nodeSelector[disk]")
		require.Contains(t, w.agent.statuses.get("2").Message, "spec.securityContext.sysctls[0]: kernel.msgmax")
	})
}
