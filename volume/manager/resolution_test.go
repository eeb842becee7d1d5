package manager

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/volume"
)

// selectivePlugin supports volumes by name.
type selectivePlugin struct{ stubPlugin }

func (p selectivePlugin) Supports(s *volume.Spec) bool { return s.Name == p.name || s.Name == "all" }

// The event message has the most important fact of each volume, without values that change over
// time. Failed operations have upstream's texts.
func TestEventMessage(t *testing.T) {
	failed := errors.New("no such share")
	at := time.Unix(1000, 0)
	for text, v := range map[string]VolumeState{
		`MountVolume.SetUp failed for volume "v" : no such share`:                                                                       {LastError: failed, failed: doMount, LastErrorAt: at, NextTry: at, WaitsFor: "the start of mount", Operation: "mount"},
		`MountVolume.SetUp failed for volume "pv" : no such share`:                                                                      {LastError: failed, failed: doMount, spec: "pv"},
		`MapVolume.MapPodDevice failed for volume "v" : no such share`:                                                                  {LastError: failed, failed: doMount, Block: true},
		`MountVolume.MountDevice failed for volume "v" : no such share`:                                                                 {LastError: failed, failed: doStage},
		`MapVolume.SetUpDevice failed for volume "v" : no such share`:                                                                   {LastError: failed, failed: doStage, Block: true},
		`MountVolume.WaitForAttach failed for volume "v" : no such share`:                                                               {LastError: failed, failed: doVerify},
		`UnmountVolume.TearDown failed for volume "v" : no such share`:                                                                  {LastError: failed, failed: doUnmount},
		`remove folders failed for volume "v" : no such share`:                                                                          {LastError: failed, failed: doFinish},
		`Unable to attach or mount volumes: unmounted volumes=[v], unattached volumes=[], failed to process volumes=[v]: no such share`: {LastError: failed},
		`volume "v" waits for claim`:                                                                                                    {WaitsFor: "claim", Operation: "mount"},
		`volume "v": mount is still running`:                                                                                            {Operation: "mount", RunningSince: at, Stuck: true},
	} {
		v.Name = "v"
		for action, end := range map[string]error{"mount": nil, "unmount": context.DeadlineExceeded} {
			e := &NotReadyError{Pod: "pod", UID: "1", Action: action, Volumes: []VolumeState{v, {Name: "w"}}, Err: end}
			require.Equal(t, text+"; cannot "+action+` volume "w" yet`, e.EventMessage())
			reason := map[string]string{"mount": reasonFailedMount, "unmount": reasonFailedUnmount}[action]
			require.Equal(t, reason, e.EventReason())
		}
	}
}

type oneSpec struct {
	Claims
	spec *volume.Spec
}

func (c oneSpec) Resolve(context.Context, *v1.Pod, v1.Volume) (*volume.Spec, error) {
	return c.spec, nil
}

// A claim with an invalid volume is rejected with its field. V33: a device cannot be mounted as
// files, or files as a device.
func TestResolveChecks(t *testing.T) {
	pod := &v1.Pod{Spec: v1.PodSpec{Volumes: []v1.Volume{{Name: "other"}, {Name: "v"}}}}
	pod.Spec.Volumes[1].PersistentVolumeClaim = &v1.PersistentVolumeClaimVolumeSource{}
	m := &Manager{cfg: Config{Plugins: []volume.Plugin{selectivePlugin{stubPlugin{name: "v"}}}, Claims: oneSpec{spec: &volume.Spec{Name: "v"}}}}
	r := resolved{name: "v"}
	err := m.resolveInto(t.Context(), pod, &volumeUse{Name: "v"}, &r)
	require.ErrorContains(t, err, "spec.volumes[1].persistentVolumeClaim: ")
	pv := &v1.PersistentVolume{}
	pv.Spec.CSI = &v1.CSIPersistentVolumeSource{}
	m.cfg.Claims = oneSpec{spec: &volume.Spec{Name: "v", Persistent: pv}}
	require.NoError(t, m.resolveInto(t.Context(), pod, &volumeUse{Name: "v", Mounts: true, Inside: []string{"a"}}, &r))
	require.Equal(t, []string{"a"}, r.inside)
	require.ErrorContains(t, m.resolveInto(t.Context(), pod, &volumeUse{Name: "v", Devices: true}, &r), "has volumeMode Filesystem and is named in volumeDevices")
	block := v1.PersistentVolumeBlock
	pv.Spec.VolumeMode = &block
	require.ErrorContains(t, m.resolveInto(t.Context(), pod, &volumeUse{Name: "v", Mounts: true}, &r), "has volumeMode Block and is named in volumeMounts")
	require.NoError(t, m.resolveInto(t.Context(), pod, &volumeUse{Name: "v", Devices: true}, &r))

	pv.Spec.VolumeMode, pv.Spec.AccessModes = nil, []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod}
	m.cfg.Plugins, m.cfg.SELinux = []volume.Plugin{labelled{Plugin: m.cfg.Plugins[0], err: errFailed}}, labels{}
	err = m.resolveInto(t.Context(), pod, &volumeUse{Name: "v", Mounts: true}, &r)
	require.EqualError(t, err, "spec.volumes[1].persistentVolumeClaim: failed", "support for labels is unknown")
}
