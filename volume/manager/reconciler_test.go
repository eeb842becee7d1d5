package manager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/volume"
)

var errFailed = errors.New("failed")

// stubPlugin is a plugin that is never called: the reconciler only checks its abilities.
type stubPlugin struct {
	volume.Plugin
	name string
}

func (n stubPlugin) Name() string { return n.name }

type stubShared struct {
	stubPlugin
	volume.Stager
}

func (stubShared) Expand(context.Context, *volume.Spec, string, string) (int64, error) {
	return 0, nil
}

// stubExpander is a plugin that can expand, without shared volumes.
type stubExpander struct{ stubPlugin }

func (stubExpander) Expand(context.Context, *volume.Spec, string, string) (int64, error) {
	return 0, nil
}

var (
	growing = stubExpander{stubPlugin{name: "growing"}}
	own     = stubPlugin{name: "own"}
	shared  = stubShared{stubPlugin: stubPlugin{name: "shared"}}
	object  = volume.Object{Kind: "ConfigMap", Namespace: "ns", Name: "web"}
)

// script runs commands on a reconciler and checks its invariants after each.
type script struct {
	t        testing.TB
	rc       *reconciler
	now      time.Time
	running  []*operation
	wanted   map[types.UID]bool // prepared and not released since
	previous map[types.UID]waitEnds
	// requested maps the refreshes that a Prepare requested to their operations. An entry is nil
	// until an operation begins after the request; earlier operations may have the old content.
	requested map[*volumeState]*operation
	notified  set[types.UID] // pods with a change; nil disables it
	log       []string
}

func newScript(t testing.TB) *script {
	s := &script{
		t: t, rc: newReconciler([]volume.Plugin{own, shared}, time.Minute),
		now: time.Unix(1000, 0), wanted: map[types.UID]bool{}, previous: map[types.UID]waitEnds{},
		requested: map[*volumeState]*operation{},
	}
	return s
}

func (s *script) logf(format string, args ...any) {
	s.log = append(s.log, fmt.Sprintf(format, args...))
}

func (s *script) require(ok bool, format string, args ...any) {
	s.t.Helper()
	if !ok {
		s.t.Fatalf("%s\n%v", fmt.Sprintf(format, args...), s.log)
	}
}

func (s *script) next() {
	for _, op := range s.rc.next(s.now) {
		s.logf("%v: begin %s", s.now.Unix(), op.name)
		s.checkBegin(op)
		s.running = append(s.running, op)
	}
	s.checkInvariants()
}

// checkBegin checks that an operation may begin now.
func (s *script) checkBegin(op *operation) {
	for _, other := range s.running {
		s.require(other.on != op.on, "%s begins while %s runs", op.name, other.name)
	}
	switch a := op.on.(type) {
	case *volumeState:
		s.checkBeginVolume(a, op)
	case *sharedState:
		for v := range a.users {
			s.require(v.op == nil || op.kind == doVerify, "%s begins during an operation of a pod", op.name)
		}
		if op.kind == doUnstage {
			for v := range a.users {
				s.require(v.state == StateNotMounted, "%s with users", op.name)
			}
			first := a.first()
			s.require(len(a.users) == 0 || first != nil && a.label != first.label, "%s, although the stage fits the next user", op.name)
			s.require(s.rc.complete && len(s.rc.unread) == 0 && len(s.rc.unknown) == 0, "%s before all pods and volumes are known", op.name)
		} else {
			s.require(len(a.users) > 0, "%s without users", op.name)
		}
		uses := func(v *volumeState) bool { return v.wanted && v.state == StateMounted }
		s.require(op.kind != doExpand || slices.ContainsFunc(slices.Collect(maps.Keys(a.users)), uses), "%s without a mounted user", op.name)
	}
}

func (s *script) checkBeginVolume(v *volumeState, op *operation) {
	uid := v.pod.uid
	s.require(v.pod.op == nil || v.pod.op.began.Equal(s.now), "%s during an operation on the pod", op.name)
	if _, requested := s.requested[v]; requested && op.kind == doMount {
		s.requested[v] = op
	}
	switch op.kind {
	case doUnmount:
		s.require(v.pod.releasing && !s.wanted[uid], "%s of a pod that was not released", op.name)
		s.require(v.pod.scanned, "%s before the release of sub paths", op.name)
	case doMount:
		s.require(s.wanted[uid], "%s of a pod that was not prepared", op.name)
		s.require(op.again == (v.state == StateMounted), "%s: again is %v", op.name, op.again)
		if v.shared != nil {
			s.require(v.shared.busy() == nil && (op.again || v.shared.stage == StateMounted && v.shared.attached), "%s before the stage", op.name)
			s.require(v.state != StateNotMounted || v.shared.label == v.label, "%s with a different label than the stage", op.name)
		}
	}
	if v.shared != nil && op.kind != doExpand {
		s.require(v.shared.busy() == nil, "%s while %v", op.name, v.shared.op)
	}
}

func (s *script) checkInvariants() {
	refreshing := 0
	for _, op := range s.running {
		if op.refreshes {
			refreshing++
		}
	}
	s.require(refreshing == s.rc.slots.used && refreshing <= maxRefreshing, "%d refreshes, counted %d", refreshing, s.rc.slots.used)
	holders := map[string]types.UID{}
	for uid, p := range s.rc.pods {
		for _, v := range p.volumes {
			s.require(!v.wanted || !p.releasing, "a volume of a released pod is wanted")
			s.require(v.shared == nil || v.shared.users.has(v), "a volume is missing in the users of its shared volume")
			s.require(!v.found || v.state == StateUncertain, "volume %s of pod %s was found, and is %v", v.key.name, uid, v.state)
			if v.spec != nil && v.spec.Name == "once" && (v.state != StateNotMounted && !v.found || v.op != nil && v.op.kind == doMount) {
				other, used := holders["once"]
				s.require(!used || other == uid, "pods %s and %s use one ReadWriteOncePod volume", other, uid)
				holders["once"] = uid
			}
		}
		for name, n := range p.names {
			s.require(n.volume == nil || p.volumes[n.volume.key] == n.volume, "pod %s: %s refers to a dropped volume", uid, name)
		}
	}
	for id, shared := range s.rc.shared {
		s.require(!shared.found || shared.stage == StateUncertain, "volume %v was found, and is %v", id, shared.stage)
	}
	s.checkSettled()
	s.checkNotified()
	s.checkPrepareContract()
	if s.now.Unix()%7 == 0 { // sometimes only; explain must not panic
		for _, p := range s.rc.pods {
			for _, v := range s.rc.explain(p, s.now) {
				_ = v.String()
			}
		}
	}
}

// checkSettled checks that each possible operation has begun, and that each item with a time is
// scheduled for it.
func (s *script) checkSettled() {
	check := func(a item, name string) {
		u := a.base()
		step := a.next(s.rc, s.now)
		s.require(step.do == doNothing && !step.drop, "%s: not scheduled, but has an operation to start: %v, drop: %v", name, step.do, step.drop)
		s.require(step.at.IsZero() || u.place.In() && !u.scheduledAt.After(step.at), "%s: no scan is scheduled for %v: %s", name, step.at, step.why)
	}
	for uid, p := range s.rc.pods {
		check(p, "pod "+string(uid))
		for key, v := range p.volumes {
			check(v, fmt.Sprintf("volume %s of pod %s", key.name, uid))
		}
	}
	for id, shared := range s.rc.shared {
		check(shared, "volume "+id.String())
	}
	for name, l := range s.rc.lists {
		check(l, "list of "+name)
	}
}

// waitEnds has the conditions that callers wait for: the end of a release, or of a preparation with
// and without refreshes.
type waitEnds struct{ release, prepared, ready bool }

func (s *script) waitEndsOf(p *podState) waitEnds {
	moving := s.rc.progresses(p, s.now)
	for _, v := range p.volumes {
		moving = moving || s.rc.progresses(v, s.now)
	}
	return waitEnds{!p.releasing || !moving, !p.releasing && s.rc.prepared(p, true, s.now), !p.releasing && p.ready()}
}

// checkPrepareContract checks the contract of Prepare. At its end with all volumes ready, each volume that
// was mounted before was refreshed by an operation that began after the call. Exceptions: an
// operation on the volume or before it is stuck; the last attempt failed and the back-off
// continues; or another pod has the volume. At its end with volumes missing, no operation on
// them makes progress.
func (s *script) checkPrepareContract() {
	for _, p := range s.rc.pods {
		if p.releasing || !s.rc.prepared(p, true, s.now) {
			continue
		}
		for _, v := range p.wanted() {
			op, requested := s.requested[v]
			if v.ready() && !(requested && p.ready()) {
				continue
			}
			waits, why := s.waits(v)
			s.require(waits, "pod %s: Prepare has ended, but %s is not ready or not refreshed: %s, %v", p.uid, v.key.name, why, op)
		}
	}
}

// waits reports whether a volume can make no progress before a back-off ends or others act: an
// operation is stuck, or a pod has the volume. It checks the conditions in their order. A
// mounted volume does not wait for its attachment.
func (s *script) waits(v *volumeState) (waits bool, why string) {
	paused := s.now.Before(v.retry.at) || s.now.Before(v.pod.retry.at)
	for _, op := range []*operation{v.op, v.pod.op} {
		if op != nil {
			return op.stuck, op.String()
		}
	}
	if step, blocked := s.rc.claimHolder(v); blocked {
		return !step.continues, step.why
	}
	if of := v.shared; of != nil {
		paused = paused || s.now.Before(of.retry.at)
		if first := of.first(); first != nil && v.state != StateMounted { // the volume is staged for its first user
			if of.mislabelled(first) && !s.rc.mayUnstage(of.id.Plugin) {
				return true, "all pods of the node to be listed"
			}
			if first != v && (of.mislabelled(first) || of.mislabelled(v)) {
				return true, "waits for a pod with another label"
			}
		}
		if of.op != nil && (of.op.kind != doVerify || v.state != StateMounted) {
			return of.op.stuck, of.op.String()
		}
		if v.state != StateMounted || !v.ready() {
			for user := range of.users {
				paused = paused || user.op != nil && user.op.stuck
			}
		}
	}
	return paused, "no operation runs"
}

// checkNotified checks that the pod counts as changed when a wait of its callers ends.
func (s *script) checkNotified() {
	now := map[types.UID]waitEnds{}
	for uid, p := range s.rc.pods {
		now[uid] = s.waitEndsOf(p)
	}
	for uid, before := range s.previous {
		after, exists := now[uid]
		waitEnded := !exists || after.release && !before.release || after.prepared && !before.prepared || after.ready && !before.ready
		s.require(!waitEnded || s.rc.changed.has(uid), "pod %s: not marked as changed after %v -> %v", uid, before, after)
	}
	s.previous = now
	if s.notified != nil {
		maps.Copy(s.notified, s.rc.changed)
	}
	clear(s.rc.changed)
}

func (s *script) prepare(uid types.UID, volumes ...resolved) {
	s.logf("prepare %s %d", uid, len(volumes))
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pod", UID: uid}}
	s.wanted[uid] = true
	for _, v := range s.rc.setDesired(pod, volumes, s.now).wanted() {
		if v.remount && v.state == StateMounted { // after its claim is read
			s.requested[v] = nil
		} else {
			delete(s.requested, v)
		}
	}
	s.next()
}

func (s *script) release(uid types.UID) {
	s.logf("release %s", uid)
	delete(s.wanted, uid)
	_, cancelled := s.rc.release(uid)
	for _, op := range cancelled {
		s.rc.markCancelled(op, s.now)
	}
	s.next()
}

func (s *script) end(i int, out outcome) {
	op := s.running[i]
	s.logf("end %s: %v", op.name, out.err)
	s.running = slices.Delete(s.running, i, i+1)
	if v, ok := op.on.(*volumeState); ok && s.requested[v] == op {
		delete(s.requested, v)
	}
	if op.kind == doVerify {
		out.attach = true
	}
	if op.kind == doExpand && out.err == nil {
		out.size = cmp.Or(out.size, op.size)
	}
	s.rc.end(op, out, s.now)
	s.next()
}

func (s *script) indexOf(k kind) int {
	return slices.IndexFunc(s.running, func(op *operation) bool { return op.kind == k })
}

func (s *script) endOf(k kind, out outcome) {
	s.t.Helper()
	i := s.indexOf(k)
	s.require(i >= 0, "no %v runs", k)
	s.end(i, out)
}

func (s *script) advance(d time.Duration) {
	s.now = s.now.Add(d)
	s.next()
}

func inlineVolume(name string) resolved {
	return resolved{name: name, plugin: own, spec: &volume.Spec{Name: name, Inline: &v1.VolumeSource{}}, objects: []volume.Object{object}, remounts: true}
}

func claimedVolume(name, size string) resolved {
	pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
	pv.Spec.Capacity = v1.ResourceList{v1.ResourceStorage: resource.MustParse(size)}
	if name == "once" {
		pv.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod}
	}
	return resolved{name: name, plugin: shared, spec: &volume.Spec{Name: name, Persistent: pv}, shared: "h-" + name}
}

// grownVolume returns a volume that is not shared, can be expanded, and is refreshed.
func grownVolume(name, size string) resolved {
	r := claimedVolume(name, size)
	r.plugin, r.shared, r.remounts, r.objects = growing, "", true, []volume.Object{object}
	return r
}

// finish releases all pods, lets all operations succeed, and checks that no state remains.
func (s *script) finish() {
	s.rc.complete = true
	s.rc.touchAllShared()
	s.next()
	for uid := range s.rc.pods {
		s.release(uid)
	}
	for range 1000 {
		for len(s.running) > 0 {
			s.end(0, outcome{})
		}
		at, ok := s.rc.nextDue()
		if !ok {
			break
		}
		s.advance(max(at.Sub(s.now), 0))
	}
	rc := s.rc
	left := fmt.Sprint(len(rc.pods), len(rc.shared), len(rc.objects), len(rc.claimed), len(rc.unknown), len(rc.unread), rc.slots.used, len(rc.slots.waiting), rc.scheduled.Len())
	s.require(left == "0 0 0 0 0 0 0 0 0", "remaining state at the end: %s", left)
}

// play runs a script from bytes. Three bytes select each command.
func play(t testing.TB, data []byte) {
	s := newScript(t)
	uids := []types.UID{"a", "b", "c", "d"}
	s.rc.addUnread(uids[:2])
	s.next()
	all := []resolved{inlineVolume("x"), inlineVolume("y"), claimedVolume("disk", "1Gi"), claimedVolume("once", "1Gi")}
	outcomes := []outcome{{}, {}, {}, {err: errFailed}, {err: volume.Uncertain(errFailed)}, {err: volume.Transient(errFailed)}, {err: errFailed, ended: true}}
	for i := 0; i+2 < len(data); i += 3 {
		what, which, how := data[i], int(data[i+1]), int(data[i+2])
		uid := uids[which%len(uids)]
		switch what % 8 {
		case 0:
			var volumes []resolved
			for j, r := range all {
				if how>>j&1 == 1 {
					if r.name == "once" && how&32 != 0 {
						r.label = string(uid)
					}
					volumes = append(volumes, r)
				}
			}
			if how&16 != 0 {
				volumes = append(volumes, grownVolume("grown", []string{"1Gi", "2Gi"}[how>>5&1]))
			}
			if how&64 != 0 {
				volumes = append(volumes, claimedVolume("disk", "2Gi"))
				volumes[len(volumes)-1].name = "another"
			}
			if how&128 != 0 && len(volumes) > 0 {
				volumes[0] = resolved{name: volumes[0].name, err: errFailed}
			}
			s.prepare(uid, volumes...)
		case 1:
			s.release(uid)
		case 2, 3, 4:
			if len(s.running) == 0 {
				continue
			}
			n := which % len(s.running)
			out := outcomes[how%len(outcomes)]
			switch op := s.running[n]; {
			case op.kind == doMount && how&128 != 0:
				out.mounted.RefreshAt = s.now.Add(time.Duration(how) * time.Second)
			case (op.kind == doRead || op.kind == doScan) && how&64 != 0:
				out.found = []found{
					{key: volumeKey{plugin: "own", name: "x"}, plugin: own},
					{key: volumeKey{plugin: "shared", name: "disk"}, plugin: shared, shared: "h-disk"},
					{key: volumeKey{plugin: "shared", name: "odd"}, plugin: shared, unknown: true},
					{key: volumeKey{plugin: "shared", name: "once"}, plugin: shared, shared: "h-once"},
				}[:how%5]
			case op.kind == doList:
				out.ids = []string{"h-disk", "h-left", "h-once"}[:how%4]
			}
			s.end(n, out)
		case 5:
			s.advance(time.Duration(how) * time.Duration(which) * time.Millisecond)
		case 6:
			s.rc.objectChanged(volume.Object{Kind: object.Kind, Namespace: object.Namespace, Name: []string{"web", "", "other"}[which%3]})
			s.next()
		case 7:
			s.rc.complete = how%2 == 0
			s.rc.touchAllShared()
			s.rc.retryVerification()
			s.next()
		}
	}
	s.finish()
}

// In any order of events, no volume of a pod is unmounted before its release, no shared volume
// with users is unstaged, and no state remains at the end.
func FuzzReconciler(f *testing.F) {
	f.Add([]byte{0, 0, 15, 2, 0, 0, 2, 0, 0, 1, 0, 0})
	f.Add([]byte{0, 0, 255, 0, 1, 255, 2, 1, 3, 1, 1, 0, 0, 1, 15})
	for seed := range 80 {
		random := make([]byte, 6*seed)
		_, _ = rand.NewChaCha8([32]byte{byte(seed)}).Read(random)
		f.Add(random)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 3000 {
			return
		}
		play(t, data)
	})
}

func TestOutcomes(t *testing.T) {
	for _, test := range []struct {
		name   string
		out    outcome
		before State
		found  bool
		want   State
	}{
		{"success", outcome{}, StateUncertain, true, StateMounted},
		{"uncertain", outcome{err: volume.Uncertain(errFailed)}, StateNotMounted, false, StateUncertain},
		{"transient", outcome{err: volume.Transient(errFailed)}, StateNotMounted, false, StateNotMounted},
		{"transient after uncertain", outcome{err: volume.Transient(errFailed)}, StateUncertain, false, StateUncertain},
		{"final", outcome{err: errFailed}, StateNotMounted, false, StateNotMounted},
		{"final after uncertain", outcome{err: errFailed}, StateUncertain, false, StateNotMounted},
		{"final, found on the disk", outcome{err: errFailed}, StateUncertain, true, StateUncertain},
		{"cancelled", outcome{err: errFailed, ended: true}, StateNotMounted, false, StateUncertain},
		{"transient, cancelled", outcome{err: volume.Transient(errFailed), ended: true}, StateNotMounted, false, StateNotMounted},
	} {
		require.Equal(t, test.want, test.out.after(test.before, test.found), test.name)
	}
}

func TestMountOf(t *testing.T) {
	id := func(n int64) *int64 { return &n }
	size := func(s string) *resource.Quantity { q := resource.MustParse(s); return &q }
	limited := func(memory, storage string) v1.Container {
		limits := v1.ResourceList{}
		if memory != "" {
			limits[v1.ResourceMemory] = resource.MustParse(memory)
		}
		if storage != "" {
			limits[v1.ResourceEphemeralStorage] = resource.MustParse(storage)
		}
		return v1.Container{Resources: v1.ResourceRequirements{Limits: limits}}
	}
	emptyDir := func(medium v1.StorageMedium, limit *resource.Quantity) *volume.Spec {
		return &volume.Spec{Name: "v", Inline: &v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: medium, SizeLimit: limit}}}
	}
	for _, test := range []struct {
		name string
		spec *volume.Spec
		of   []v1.Container
		want int64
	}{
		{"no limits", emptyDir("", nil), []v1.Container{{}}, 0},
		{"own limit", emptyDir("", size("64Mi")), []v1.Container{{}}, 64 << 20},
		{"limit of the pod is smaller", emptyDir("", size("64Mi")), []v1.Container{limited("", "20Mi"), limited("", "12Mi")}, 32 << 20},
		{"own limit is smaller", emptyDir("", size("16Mi")), []v1.Container{limited("", "20Mi")}, 16 << 20},
		{"own limit of zero means none", emptyDir("", size("0")), []v1.Container{limited("", "1Mi")}, 1 << 20},
		{"equal limits", emptyDir("", size("1Mi")), []v1.Container{limited("", "1Mi")}, 1 << 20},
		{"memory", emptyDir(v1.StorageMediumMemory, size("64Mi")), []v1.Container{limited("32Mi", "1Mi")}, 32 << 20},
		{"memory without a limit", emptyDir(v1.StorageMediumMemory, nil), []v1.Container{limited("32Mi", ""), {}}, 0},
		{"huge pages", emptyDir("HugePages-2Mi", size("64Mi")), []v1.Container{limited("32Mi", "1Mi")}, 64 << 20},
		{"huge pages without a limit", emptyDir("HugePages-2Mi", nil), []v1.Container{limited("32Mi", "1Mi")}, 0},
		{"config map", &volume.Spec{Inline: &v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{}}}, []v1.Container{limited("", "1Mi")}, 1 << 20},
		{"own limit of memory is smaller (V12)", emptyDir(v1.StorageMediumMemory, size("16Mi")), []v1.Container{limited("32Mi", ""), limited("32Mi", "")}, 16 << 20},
		{"a container without memory, V12", emptyDir(v1.StorageMediumMemory, size("64Mi")), []v1.Container{limited("32Mi", ""), limited("0", "")}, 64 << 20},
		{"below zero", emptyDir("", size("-1")), []v1.Container{limited("", "1Mi")}, -1},
		{"secret", &volume.Spec{Inline: &v1.VolumeSource{Secret: &v1.SecretVolumeSource{}}}, []v1.Container{limited("2Mi", "1Mi")}, 2 << 20},
		{"projected", &volume.Spec{Inline: &v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{}}}, []v1.Container{limited("2Mi", "1Mi")}, 2 << 20},
		{"downward API", &volume.Spec{Inline: &v1.VolumeSource{DownwardAPI: &v1.DownwardAPIVolumeSource{}}}, []v1.Container{limited("2Mi", "1Mi")}, 2 << 20},
		{"a folder of the host", &volume.Spec{Inline: &v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/x"}}}, []v1.Container{limited("1Mi", "1Mi")}, 0},
		{"persistent", &volume.Spec{Persistent: &v1.PersistentVolume{}}, []v1.Container{limited("1Mi", "1Mi")}, 0},
	} {
		require.Equal(t, test.want, mountOf(&v1.Pod{Spec: v1.PodSpec{Containers: test.of}}, test.spec).SizeLimit, test.name)
	}
	always := v1.ContainerRestartPolicyAlways
	pod := &v1.Pod{Spec: v1.PodSpec{
		InitContainers: []v1.Container{limited("", "3Mi"), limited("", "2Mi"), limited("", "4Mi")},
		Containers:     []v1.Container{limited("", "1Mi")},
	}}
	pod.Spec.InitContainers[1].RestartPolicy = &always
	require.Equal(t, int64(6<<20), podLimit(pod, v1.ResourceEphemeralStorage), "the last init container runs beside the sidecar")

	levelled := &v1.Pod{Spec: v1.PodSpec{
		Resources:  &v1.ResourceRequirements{Limits: v1.ResourceList{v1.ResourceMemory: *size("48Mi")}},
		Containers: []v1.Container{{}, limited("1Gi", "")},
		Overhead:   v1.ResourceList{v1.ResourceMemory: *size("2Mi")},
	}}
	require.Equal(t, int64(50<<20), podMemory(levelled), "limit of the pod plus overhead of the sandbox")
	levelled.Spec.Resources.Limits = v1.ResourceList{v1.ResourceCPU: *size("1")}
	require.Zero(t, podMemory(levelled), "the pod has no memory limit, and a container has none")

	user := func(u *int64) v1.Container { return v1.Container{SecurityContext: &v1.SecurityContext{RunAsUser: u}} }
	for _, test := range []struct {
		name string
		pod  *int64
		of   []v1.Container
		want *int64
	}{
		{"none", nil, []v1.Container{{}}, nil},
		{"user of the pod", id(1), []v1.Container{{}, {}}, id(1)},
		{"equal users", nil, []v1.Container{user(id(2)), user(id(2))}, id(2)},
		{"a container without a user", nil, []v1.Container{user(id(2)), {}}, nil},
		{"an init container differs", nil, []v1.Container{user(id(2)), user(id(3))}, nil},
		{"different users", id(1), []v1.Container{user(id(2)), {}}, nil},
	} {
		m := mountOf(&v1.Pod{Spec: v1.PodSpec{SecurityContext: &v1.PodSecurityContext{RunAsUser: test.pod, FSGroup: id(7)}, Containers: test.of}}, emptyDir("", nil))
		require.Equal(t, test.want, m.RunAsUser, test.name)
		require.Equal(t, id(7), m.FSGroup)
	}
	spec := v1.PodSpec{InitContainers: []v1.Container{user(id(2))}, Containers: []v1.Container{user(id(2))}, EphemeralContainers: []v1.EphemeralContainer{{}}}
	common := &spec.EphemeralContainers[0].EphemeralContainerCommon
	for _, test := range []struct{ init, ephemeral, want *int64 }{{id(2), id(2), id(2)}, {id(2), id(3), nil}, {id(3), id(2), nil}} {
		spec.InitContainers[0].SecurityContext.RunAsUser = test.init
		common.SecurityContext = &v1.SecurityContext{RunAsUser: test.ephemeral}
		require.Equal(t, test.want, runAsUser(&v1.Pod{Spec: spec}))
	}
	require.Nil(t, fsGroup(nil))
	require.Nil(t, fsGroup(&v1.Pod{}))
}

// A volume for one pod waits until the disk is read. When no read is in progress any longer,
// its callers are notified, and it continues after the back-off of the read.
func TestFailedReadOfDiskEndsWait(t *testing.T) {
	for name, end := range map[string]func(s *script){
		"the read fails":      func(s *script) { s.end(0, outcome{err: errFailed}) },
		"the read hangs":      func(s *script) { s.advance(s.rc.limit + operationGrace) },
		"its pod is released": func(s *script) { s.release("a"); s.end(0, outcome{}); s.end(0, outcome{err: errFailed}) },
		"the read of another pod ends": func(s *script) {
			s.end(0, outcome{err: errFailed})
			s.rc.addUnread([]types.UID{"b"})
			s.next()
			require.True(t, s.rc.reading())
			s.end(len(s.running)-1, outcome{})
		},
		"its pod has the volume": func(s *script) {
			s.rc.addUnread([]types.UID{"b"})
			s.next()
			s.end(0, outcome{found: []found{{key: volumeKey{plugin: "own", name: "once"}, plugin: own}}})
			require.True(t, s.rc.reading(), "the read of another pod runs")
		},
	} {
		s := newScript(t)
		s.rc.lists = map[string]*listState{}
		s.rc.dirty = nil
		s.rc.addUnread([]types.UID{"a"})
		require.True(t, s.rc.reading(), "the read begins without a delay")
		s.next()
		r := claimedVolume("once", "1Gi")
		r.plugin, r.shared = own, ""
		s.prepare("d", r)
		v := s.rc.pods["d"].names["once"].volume
		require.True(t, s.rc.progresses(v, s.now), name)
		s.notified = set[types.UID]{}
		end(s)
		require.False(t, s.rc.progresses(v, s.now), name)
		require.True(t, s.notified.has("d"), name)
	}
}

// Prepare waits for a refresh that was requested during an expansion or during another refresh.
func TestRefreshDuringExpansion(t *testing.T) {
	s := newScript(t)
	prepared := func() bool { return s.rc.prepared(s.rc.pods["a"], true, s.now) }
	s.prepare("a", grownVolume("grown", "1Gi"))
	s.endOf(doMount, outcome{})
	s.endOf(doExpand, outcome{})
	require.True(t, prepared())
	s.prepare("a", grownVolume("grown", "2Gi"))
	s.endOf(doMount, outcome{})
	require.True(t, prepared(), "Prepare does not wait for the expansion")
	s.prepare("a", grownVolume("grown", "2Gi"))
	require.False(t, prepared())
	s.endOf(doExpand, outcome{})
	require.False(t, prepared())
	s.prepare("a", grownVolume("grown", "2Gi"))
	s.endOf(doMount, outcome{})
	require.False(t, prepared(), "the refresh began before the request")
	s.endOf(doMount, outcome{})
	require.True(t, prepared())
	s.finish()
}

// A release cancels mounts and expansions, but not an unmount of an earlier release.
func TestReleaseCancels(t *testing.T) {
	s := newScript(t)
	cancels := func() int {
		_, cancelled := s.rc.release("a")
		delete(s.wanted, "a")
		for _, op := range cancelled {
			s.rc.markCancelled(op, s.now)
		}
		s.next()
		return len(cancelled)
	}
	s.prepare("a", inlineVolume("x"))
	require.Equal(t, 1, cancels(), "the mount is cancelled")
	s.endOf(doMount, outcome{err: errFailed, ended: true})
	s.endOf(doScan, outcome{})
	require.GreaterOrEqual(t, s.indexOf(doUnmount), 0)
	s.prepare("a", inlineVolume("x"))
	require.Zero(t, cancels())
	s.finish()
}

// A mounted volume keeps its state if it is also found on the disk.
func TestMountedIsFound(t *testing.T) {
	s := newScriptReading(t)
	s.prepare("a", inlineVolume("x"))
	s.endOf(doRead, outcome{err: errFailed})
	s.endOf(doMount, outcome{mounted: volume.Mounted{Path: "/x"}})
	s.advance(time.Second)
	s.endOf(doRead, outcome{found: []found{{key: volumeKey{plugin: "own", name: "x"}, plugin: own}}})
	v := s.rc.pods["a"].names["x"].volume
	require.Equal(t, StateMounted, v.state)
	require.False(t, v.found)
	s.finish()
}

// A mount that continues after its pod was released counts as stuck after a second. Release
// does not wait longer.
func TestCancelledOperationIsStuckAfterASecond(t *testing.T) {
	s := newScript(t)
	s.prepare("a", inlineVolume("x"))
	v := s.rc.pods["a"].names["x"].volume
	s.release("a")
	s.endOf(doScan, outcome{})
	s.advance(operationGrace - 1)
	require.False(t, v.op.stuck)
	s.advance(1)
	require.True(t, v.op.stuck)
	require.True(t, s.waitEndsOf(s.rc.pods["a"]).release)
	s.finish()
}

// A new request replaces the spec of a volume. If several names use one volume, their needs are
// merged.
func TestPrepareAgainWithNewSpec(t *testing.T) {
	s := newScript(t)
	of := func(name string, readOnly bool, inside string) resolved {
		r := claimedVolume("disk", "1Gi")
		r.name, r.spec.ReadOnly, r.inside = name, readOnly, []string{inside}
		return r
	}
	s.prepare("a", of("x", false, "old"))
	s.prepare("a", of("x", true, "new"))
	v := s.rc.pods["a"].names["x"].volume
	require.Equal(t, []string{"new"}, v.inside)
	require.True(t, v.spec.ReadOnly)
	s.prepare("a", of("x", true, "b"), of("y", false, "a"), of("z", true, "b"))
	require.Equal(t, []string{"a", "b"}, v.inside)
	require.False(t, v.spec.ReadOnly)
	s.finish()
}

// A volume is refreshed after the read of its claim, not before.
func TestClaimIsReadBeforeRefresh(t *testing.T) {
	s := newScript(t)
	grown := grownVolume("grown", "1Gi")
	s.prepare("a", grown)
	s.endOf(doMount, outcome{})
	s.endOf(doExpand, outcome{})
	s.prepare("a", resolved{name: "grown", claim: true})
	p := s.rc.pods["a"]
	require.Nil(t, p.names["grown"].volume.op)
	s.rc.setDesiredClaims(p.pod, []resolved{grown}, s.now)
	s.next()
	require.Equal(t, doMount, p.names["grown"].volume.op.kind)

	// If the claim now has another volume, the earlier volume is no longer wanted.
	old, other := p.names["grown"].volume, claimedVolume("disk", "1Gi")
	other.name = "grown"
	s.prepare("a", resolved{name: "grown", claim: true})
	s.rc.setDesiredClaims(p.pod, []resolved{other}, s.now)
	s.next()
	require.NotSame(t, old, p.names["grown"].volume)
	require.False(t, old.wanted)
	require.True(t, p.names["grown"].volume.wanted)
	s.finish()
}

// Claims that were read for an earlier Prepare, or during a release, have no effect.
func TestClaimsOfAnEarlierPod(t *testing.T) {
	s := newScript(t)
	claim := resolved{name: "grown", claim: true}
	accepted := func(pod *v1.Pod) bool {
		s.rc.setDesiredClaims(pod, []resolved{grownVolume("grown", "1Gi")}, s.now)
		p := s.rc.pods["a"]
		return p != nil && len(p.volumes) > 0
	}
	require.False(t, accepted(&v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "a"}}), "the pod was not prepared")
	s.prepare("a", claim)
	before := s.rc.pods["a"].pod
	s.prepare("a", claim)
	require.False(t, accepted(before))
	now := s.rc.pods["a"].pod
	s.release("a")
	s.rc.pods["a"].names["grown"] = &nameState{}
	require.False(t, accepted(now))
	delete(s.rc.pods["a"].names, "grown")
	s.prepare("a", claim)
	require.True(t, accepted(s.rc.pods["a"].pod))
	s.next()
	s.finish()
}

// Callers are notified of a read claim, even if its volume is mounted already under another
// name.
func TestReadClaimNotifiesCallers(t *testing.T) {
	s := newScript(t)
	disk := claimedVolume("disk", "1Gi")
	s.prepare("a", disk)
	for len(s.running) > 0 {
		s.end(0, outcome{})
	}
	again := disk
	again.name = "again"
	s.prepare("a", disk, resolved{name: "again", claim: true})
	require.False(t, s.rc.pods["a"].ready())
	s.rc.setDesiredClaims(s.rc.pods["a"].pod, []resolved{again}, s.now)
	require.True(t, s.rc.pods["a"].ready())
	s.next()
	s.finish()
}

// A changed object ends the back-off of a failed stage, which may have lacked it.
func TestObjectChangeEndsBackoffOfStage(t *testing.T) {
	s := newScript(t)
	disk := claimedVolume("disk", "1Gi")
	disk.objects = []volume.Object{object}
	s.prepare("a", disk)
	for _, k := range []kind{doVerify, doList} {
		s.endOf(k, outcome{})
	}
	s.endOf(doStage, outcome{err: errFailed})
	require.Negative(t, s.indexOf(doStage), "the stage is in back-off")
	s.rc.objectChanged(object)
	s.next()
	require.GreaterOrEqual(t, s.indexOf(doStage), 0)
	s.finish()
}

// An object without a name stands for its whole namespace, and without a namespace for its
// whole kind.
func TestChangesOfManyObjects(t *testing.T) {
	s := newScript(t)
	s.prepare("a", inlineVolume("x"))
	s.endOf(doMount, outcome{})
	for o, want := range map[volume.Object]bool{
		{Kind: "ConfigMap", Namespace: "ns", Name: "web"}: true, {Kind: "ConfigMap", Namespace: "ns"}: true, {Kind: "ConfigMap"}: true,
		{Kind: "ConfigMap", Namespace: "other"}: false, {Kind: "Secret"}: false, {Kind: "Secret", Namespace: "ns"}: false,
		{Kind: "ConfigMap", Namespace: "ns", Name: "other"}: false,
	} {
		s.rc.objectChanged(o)
		s.next()
		require.Equal(t, want, s.indexOf(doMount) >= 0, o)
		if want {
			s.endOf(doMount, outcome{})
		}
	}
	s.finish()
}

// The need for an attachment is known after the first result of the plugin, even before the
// volume is attached. Later failures keep it.
func TestVerified(t *testing.T) {
	for name, c := range map[string]struct {
		before sharedState
		out    outcome
		want   sharedState
	}{
		"attached":              {sharedState{}, outcome{attach: true, device: "d"}, sharedState{attachable: true, verified: true, attached: true, devicePath: "d"}},
		"not attached yet":      {sharedState{}, outcome{attach: true, err: errFailed}, sharedState{attachable: true, verified: true}},
		"needs no attachment":   {sharedState{attachable: true}, outcome{}, sharedState{verified: true, attached: true}},
		"unknown":               {sharedState{}, outcome{err: errFailed}, sharedState{}},
		"unknown, known before": {sharedState{attachable: true, verified: true, attached: true}, outcome{err: errFailed}, sharedState{attachable: true, verified: true}},
	} {
		c.before.end(&operation{kind: doVerify}, &c.out)
		require.Equal(t, c.want, c.before, name)
	}
}

// A mounted volume is refreshed independent of its staging. Only a first mount waits for that.
func TestRefreshWithoutStaging(t *testing.T) {
	rc, now := newReconciler([]volume.Plugin{own, shared}, time.Minute), time.Unix(1000, 0)
	for _, c := range []struct {
		state    State
		attached bool
		stage    State
		waits    string
	}{
		{StateMounted, false, StateNotMounted, ""}, {StateMounted, true, StateUncertain, ""},
		{StateNotMounted, false, StateMounted, "its attachment to the node"}, {StateNotMounted, true, StateUncertain, "its staging"}, {StateNotMounted, true, StateMounted, ""},
	} {
		v := &volumeState{
			pod: &podState{}, desiredVolume: desiredVolume{spec: &volume.Spec{}, remount: true, wanted: true}, actualVolume: actualVolume{state: c.state},
		}
		v.shared = &sharedState{plugin: shared, attached: c.attached, stage: c.stage, users: set[*volumeState]{v: {}}}
		s := v.nextMount(rc, now)
		require.Equal(t, c.waits, s.why, c)
		require.Equal(t, c.waits == "", s.do == doMount, c)
	}
}

// A second drop of a volume does not affect the new volume with the same key.
func TestSecondDropHasNoEffect(t *testing.T) {
	rc := newScript(t).rc
	key := volumeKey{plugin: "own", name: "x"}
	first := rc.volume(rc.pod("a"), key, own)
	rc.drop(first)
	second := rc.volume(rc.pod("a"), key, own)
	require.NotSame(t, first, second)
	rc.drop(first)
	require.Same(t, second, rc.pods["a"].volumes[key])
	require.True(t, rc.claimed[second.claim()].has(second))
	rc.drop(second)
	require.Empty(t, rc.pods["a"].volumes)
	require.Empty(t, rc.claimed)
}

// retryVerification ends the back-off of verifications only.
func TestRetryVerification(t *testing.T) {
	for k, at := range map[kind]time.Time{doVerify: {}, doStage: time.Unix(1001, 0)} {
		rc := newReconciler(nil, time.Minute)
		s := &sharedState{unit: unit{retry: retry{kind: k, at: time.Unix(1001, 0)}}}
		rc.shared[volume.ID{Plugin: "a"}] = s
		rc.retryVerification()
		require.Equal(t, at, s.retry.at)
		require.Equal(t, at.IsZero(), s.dirty)
	}
}

// A first mount of a volume for one pod waits until the disk is read, because another pod may
// have the volume. A mounted volume does not wait.
func TestVolumeForOnePodWaitsForReadOfDisk(t *testing.T) {
	claim := &volume.Spec{Persistent: &v1.PersistentVolume{Spec: v1.PersistentVolumeSpec{AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod}}}}
	for state, want := range map[State]bool{StateNotMounted: true, StateMounted: false, StateUncertain: false} {
		rc := newReconciler([]volume.Plugin{own}, time.Minute)
		v := &volumeState{pod: &podState{}, desiredVolume: desiredVolume{spec: claim}, actualVolume: actualVolume{state: state}}
		_, held := rc.claimHolder(v)
		require.False(t, held)
		rc.pods["other"] = &podState{}
		rc.unread.add("other")
		s, held := rc.claimHolder(v)
		require.Equal(t, want, held, state)
		require.Equal(t, want, s.why != "")
	}
}
