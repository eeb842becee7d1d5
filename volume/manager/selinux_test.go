package manager

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/volume"
)

type labels struct{}

var errLevel = errors.New("no such level")

func (labels) FileLabel(o *v1.SELinuxOptions) (string, error) {
	switch {
	case o == nil || o.Level == "":
		return "", nil
	case o.Level == "bad":
		return "", errLevel
	}
	return "files:" + o.Level, nil
}

// labelled is a plugin that mounts with labels, or fails with err.
type labelled struct {
	volume.Plugin
	can bool
	err error
}

func (l labelled) MountsLabel(*volume.Spec) (bool, error) { return l.can, l.err }

func TestLabelOfAVolume(t *testing.T) {
	level := func(l string) *v1.SecurityContext {
		return &v1.SecurityContext{SELinuxOptions: &v1.SELinuxOptions{Level: l}}
	}
	mounting := func(name string, c *v1.SecurityContext) v1.Container {
		return v1.Container{SecurityContext: c, VolumeMounts: []v1.VolumeMount{{Name: name}}}
	}
	recursive, block := v1.SELinuxChangePolicyRecursive, v1.PersistentVolumeBlock
	type inputs struct {
		pod    v1.PodSpec
		spec   volume.Spec
		plugin volume.Plugin
		host   SELinux
	}
	for name, c := range map[string]struct {
		change func(*inputs)
		want   string
		err    error
	}{
		"level of the pod":                {want: "files:s0:c1"},
		"level of the container":          {change: func(s *inputs) { s.pod.Containers[0].SecurityContext = level("s0:c2") }, want: "files:s0:c2"},
		"a container without a level":     {change: func(s *inputs) { s.pod.Containers[0].SecurityContext = &v1.SecurityContext{} }, want: "files:s0:c1"},
		"no level":                        {change: func(s *inputs) { s.pod.SecurityContext = nil }},
		"a container of another volume":   {change: func(s *inputs) { s.pod.Containers[1].SecurityContext = level("s0:c3") }, want: "files:s0:c1"},
		"two equal levels":                {change: func(s *inputs) { s.pod.InitContainers = []v1.Container{mounting("v", level("s0:c1"))} }, want: "files:s0:c1"},
		"two different levels":            {change: func(s *inputs) { s.pod.InitContainers = []v1.Container{mounting("v", level("s0:c2"))} }, err: ErrLabels},
		"an empty level in one container": {change: func(s *inputs) { s.pod.InitContainers = []v1.Container{mounting("v", level(""))} }, err: ErrLabels},
		"an ephemeral container": {change: func(s *inputs) {
			s.pod.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon(mounting("v", level("s1")))}}
		}, err: ErrLabels},
		"an invalid level":        {change: func(s *inputs) { s.pod.SecurityContext.SELinuxOptions.Level = "bad" }, err: errLevel},
		"change policy Recursive": {change: func(s *inputs) { s.pod.SecurityContext.SELinuxChangePolicy = &recursive }},
		"access mode ReadWriteOnce": {change: func(s *inputs) {
			s.spec.Persistent.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}
		}},
		"several access modes": {change: func(s *inputs) {
			s.spec.Persistent.Spec.AccessModes = append(s.spec.Persistent.Spec.AccessModes, v1.ReadOnlyMany)
		}},
		"a device":                     {change: func(s *inputs) { s.spec.Persistent.Spec.VolumeMode = &block }},
		"an inline volume":             {change: func(s *inputs) { s.spec = volume.Spec{Inline: &v1.VolumeSource{}} }},
		"a driver without labels":      {change: func(s *inputs) { s.plugin = labelled{} }},
		"a plugin without labels":      {change: func(s *inputs) { s.plugin = nil }},
		"an unknown driver":            {change: func(s *inputs) { s.plugin = labelled{can: true, err: errFailed} }, err: errFailed},
		"a node without SELinux":       {change: func(s *inputs) { s.host = nil }},
		"no SELinux, an invalid level": {change: func(s *inputs) { s.host, s.pod.SecurityContext.SELinuxOptions.Level = nil, "bad" }},
	} {
		t.Run(name, func(t *testing.T) {
			s := inputs{
				pod: v1.PodSpec{
					Containers:      []v1.Container{mounting("v", nil), mounting("other", nil)},
					SecurityContext: &v1.PodSecurityContext{SELinuxOptions: &v1.SELinuxOptions{Level: "s0:c1"}},
				},
				spec: volume.Spec{Persistent: &v1.PersistentVolume{Spec: v1.PersistentVolumeSpec{
					AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod},
				}}},
				plugin: labelled{can: true}, host: labels{},
			}
			if c.change != nil {
				c.change(&s)
			}
			m := &Manager{cfg: Config{SELinux: s.host}}
			got, err := m.label(&v1.Pod{Spec: s.pod}, &resolved{name: "v", spec: &s.spec, plugin: s.plugin})
			require.ErrorIs(t, err, c.err)
			require.Equal(t, c.want, got)
		})
	}
}

// TestNextStepForLabels checks the next step of a shared volume whose next user needs a label.
func TestNextStepForLabels(t *testing.T) {
	now := time.Unix(1000, 0)
	for name, c := range map[string]struct {
		staged State
		label  string // of its last Stage
		change func(rc *reconciler, user, other *volumeState)
		want   kind
		why    string
	}{
		"not staged":                            {want: doStage},
		"staged with the same label":            {staged: StateMounted, label: "a"},
		"staged with another label":             {staged: StateMounted, label: "b", want: doUnstage},
		"stage with another label is uncertain": {staged: StateUncertain, label: "b", want: doUnstage},
		"found on disk":                         {staged: StateUncertain, want: doUnstage},
		"found with the pod":                    {staged: StateUncertain, change: func(_ *reconciler, user, _ *volumeState) { user.state = StateUncertain }, want: doStage},
		"found, pods not all read":              {staged: StateUncertain, change: func(rc *reconciler, _, _ *volumeState) { rc.complete = false }, why: "all pods of the node"},
		"another pod has it mounted, being released": {staged: StateMounted, label: "b", change: func(_ *reconciler, _, other *volumeState) {
			other.pod.releasing, other.state = true, StateMounted
		}, why: "pod other, which has the volume with another SELinux label"},
		"another pod has it mounted": {staged: StateMounted, label: "b", change: func(_ *reconciler, _, other *volumeState) {
			other.wanted, other.state, other.label = true, StateMounted, "b"
		}},
		"another pod waits longer": {staged: StateMounted, label: "b", change: func(_ *reconciler, _, other *volumeState) {
			other.wanted, other.label, other.requestedAt = true, "b", now.Add(-time.Hour)
		}},
		"no label needed": {staged: StateMounted, label: "b", change: func(_ *reconciler, user, _ *volumeState) { user.label = "" }, want: doUnstage},
	} {
		t.Run(name, func(t *testing.T) {
			rc := newReconciler(nil, time.Minute)
			rc.complete = true
			s := &sharedState{users: set[*volumeState]{}, attached: true, stage: c.staged, label: c.label, found: c.label == ""}
			volumeOf := func(uid types.UID) *volumeState {
				v := &volumeState{pod: &podState{uid: uid, pod: &v1.Pod{}}, shared: s, desiredVolume: desiredVolume{requestedAt: now, spec: &volume.Spec{}}}
				s.users.add(v)
				return v
			}
			user, other := volumeOf("user"), volumeOf("other")
			other.pod.pod = nil
			user.wanted, user.label = true, "a"
			if c.change != nil {
				c.change(rc, user, other)
			}
			next := s.next(rc, now)
			require.Equal(t, c.want, next.do)
			require.Contains(t, next.why, c.why)
			if c.want == doStage {
				require.Equal(t, "a", rc.begin(s, doStage, now).stage.SELinuxLabel)
				require.Equal(t, "a", s.label)
			}
		})
	}
}

// named is a plugin with a name that mounts with labels.
type named struct{ labelled }

func (named) Name() string { return "named" }

// OnLabel is called once for a label that fits or conflicts, and at each attempt for other
// results. Only volumes for one pod are mounted with labels: for others a bad label is only
// reported.
func TestLabelsAreReported(t *testing.T) {
	var checks []LabelCheck
	m := &Manager{cfg: Config{SELinux: labels{}, Metrics: Metrics{OnLabel: func(c LabelCheck) { checks = append(checks, c) }}}, reconciler: newReconciler(nil, time.Minute)}
	addPod := func(uid types.UID, spec *volume.Spec, levels []string) (string, error) {
		pod := &v1.Pod{}
		pod.UID = uid
		for _, l := range levels {
			pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{
				SecurityContext: &v1.SecurityContext{SELinuxOptions: &v1.SELinuxOptions{Level: l}}, VolumeMounts: []v1.VolumeMount{{Name: "v"}},
			})
		}
		r := &resolved{name: "v", plugin: named{labelled{can: true}}, shared: spec.Name, spec: spec}
		var err error
		if r.label, err = m.label(pod, r); err == nil {
			p := m.reconciler.pod(uid)
			p.pod = pod
			m.reconciler.setDesiredVolume(p, r, time.Unix(1, 0))
		}
		return r.label, err
	}
	for _, mode := range []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod, v1.ReadWriteMany} {
		enforced := mode == v1.ReadWriteOncePod
		spec := &volume.Spec{Name: "pv-" + string(mode), Persistent: &v1.PersistentVolume{Spec: v1.PersistentVolumeSpec{AccessModes: []v1.PersistentVolumeAccessMode{mode}}}}
		for _, c := range []struct {
			pod    types.UID
			levels []string
			label  string
			want   []LabelResult
		}{
			{"a", []string{"s0"}, "files:s0", []LabelResult{LabelFits}},
			{"a", []string{"s0"}, "files:s0", nil},
			{"same", []string{"s0"}, "files:s0", nil},
			{"b", []string{"s1"}, "files:s1", []LabelResult{LabelConflict}},
			{"c", []string{"s0", "s1"}, "", []LabelResult{LabelsDiffer}},
			{"c", []string{"s0", "bad"}, "", []LabelResult{LabelUnknown}},
		} {
			checks = nil
			label, err := addPod(c.pod+types.UID(mode), spec, c.levels)
			require.Equal(t, map[bool]string{true: c.label}[enforced], label)
			require.Equal(t, enforced && c.label == "", err != nil)
			require.Len(t, checks, len(c.want), c)
			for i, result := range c.want {
				require.Equal(t, LabelCheck{Plugin: "named", Spec: spec, Enforced: enforced, Result: result}, checks[i])
			}
		}
	}
}

// A label conflicts only with the label of another pod that uses the volume now.
func TestLabelConflict(t *testing.T) {
	for name, c := range map[string]struct {
		user     types.UID
		released bool // and has released it
		want     LabelResult
	}{
		"another pod":              {"b", false, LabelConflict},
		"a pod that was released":  {"b", true, LabelFits},
		"itself, by another claim": {"a", false, LabelFits},
	} {
		rc := newReconciler(nil, time.Minute)
		s := rc.sharedVolume(volume.ID{Plugin: "named", Volume: "h"}, named{})
		s.users.add(&volumeState{pod: &podState{uid: c.user}, desiredVolume: desiredVolume{wanted: !c.released, needsLabel: "files:s1"}})
		r := &resolved{plugin: named{}, shared: "h", spec: &volume.Spec{Name: "v"}, needsLabel: "files:s0"}
		pod := &v1.Pod{}
		pod.UID = "a"
		require.Equal(t, c.want, (&Manager{reconciler: rc}).compareLabels(pod, r), name)
	}
}
