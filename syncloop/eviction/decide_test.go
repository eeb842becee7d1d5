package eviction

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// N24
func TestMemoryShortage(t *testing.T) {
	p := Policy{Thresholds: []Threshold{hard(MemoryAvailable, 100*mi)}}
	pods := []*v1.Pod{newPod("burstable", requests(v1.ResourceMemory, "60Mi")), newPod("best-effort")}
	u := usageOf(MemoryAvailable, 80*mi, 1000*mi, noon)
	u.Pods["burstable"], u.Pods["best-effort"] = memoryUse(50*mi), memoryUse(30*mi)
	d := p.Decide(State{}, u, pods, noon)
	require.Equal(t, Pressure{Memory: true}, d.Pressure)
	require.Equal(t, Reclaim{}, d.Reclaim)
	v, ok := p.Candidate(d, u, pods, noon)
	require.True(t, ok)
	require.Equal(t, "best-effort", v.Pod.Name)
	require.EqualValues(t, 1, v.GraceSeconds)
	require.Equal(t, "The node was low on resource: memory. Threshold quantity: 100Mi, available: 80Mi. Container c was using 30Mi, request is 0, has larger consumption of memory. ", v.Message)
	require.Equal(t, map[string]string{"starved_resource": "memory", "offending_containers": "c", "offending_containers_usage": "30Mi"}, v.Annotations)

	var status v1.PodStatus
	v.Apply(&status)
	v.Apply(&status)
	require.Equal(t, v1.PodFailed, status.Phase)
	require.Equal(t, "Evicted", status.Reason)
	require.Equal(t, v.Message, status.Message)
	require.Len(t, status.Conditions, 1)
	require.Equal(t, v1.DisruptionTarget, status.Conditions[0].Type)
	require.Equal(t, "TerminationByKubelet", status.Conditions[0].Reason)
	require.Equal(t, noon, status.Conditions[0].LastTransitionTime.Time)
}

// N25
func TestConditionLastsForTransitionPeriod(t *testing.T) {
	p := Policy{Thresholds: []Threshold{hard(MemoryAvailable, 100)}, Transition: 5 * time.Minute}
	d := p.Decide(State{}, usageOf(MemoryAvailable, 99, 1000, noon), nil, noon)
	require.True(t, d.Pressure.Memory)
	for after, want := range map[time.Duration]bool{time.Second: true, 5*time.Minute - 1: true, 5 * time.Minute: false} {
		now := noon.Add(after)
		next := p.Decide(d.State, usageOf(MemoryAvailable, 100, 1000, now), nil, now)
		require.Equal(t, want, next.Pressure.Memory, after)
		require.Nil(t, next.Met)
	}
	p.Transition = 0
	require.True(t, p.Decide(State{}, usageOf(MemoryAvailable, 99, 1000, noon), nil, noon).Pressure.Memory)
}

// N26
func TestSoftThresholdWaitsForGracePeriod(t *testing.T) {
	soft := hard(MemoryAvailable, 100)
	soft.Grace = 30 * time.Second
	p := Policy{Thresholds: []Threshold{soft}, MaxPodGrace: 20}
	for own, want := range map[int64]int64{60: 20, 5: 5, 0: 1} {
		pods := []*v1.Pod{newPod("a", grace(own))}
		var state State
		for _, s := range []int{0, 29, 30} {
			now := noon.Add(time.Duration(s) * time.Second)
			u := usageOf(MemoryAvailable, 99, 1000, now)
			d := p.Decide(state, u, pods, now)
			state = d.State
			v, ok := p.Candidate(d, u, pods, now)
			require.True(t, d.Pressure.Memory)
			require.Equal(t, s == 30, ok, s)
			if ok {
				require.Equal(t, want, v.GraceSeconds)
			}
		}
	}
	// An interruption of the shortage restarts the grace period.
	state := p.Decide(State{}, usageOf(MemoryAvailable, 99, 1000, noon), nil, noon).State
	state = p.Decide(state, usageOf(MemoryAvailable, 100, 1000, noon.Add(20*time.Second)), nil, noon.Add(20*time.Second)).State
	require.Nil(t, p.Decide(state, usageOf(MemoryAvailable, 99, 1000, noon.Add(40*time.Second)), nil, noon.Add(40*time.Second)).Met)
}

// N28
func TestLocalStorageLimits(t *testing.T) {
	p := Policy{LocalStorage: true, Thresholds: []Threshold{hard(MemoryAvailable, 100)}}
	static := newPod("static", emptyDir("1Mi"))
	static.Annotations = map[string]string{"kubernetes.io/config.source": "file"}
	pods := []*v1.Pod{newPod("b", emptyDir("1Mi")), newPod("a", emptyDir("1Mi")), newPod("c", emptyDir("3Mi")), newPod("unknown", emptyDir("1Mi")), static}
	u := usageOf(MemoryAvailable, 99, 1000, noon)
	for _, name := range []types.UID{"a", "b", "c", "static"} {
		u.Pods[name] = PodUsage{EmptyDirs: map[string]uint64{"v": 2 * mi}}
	}
	d := p.Decide(State{}, u, pods, noon)
	require.NotNil(t, d.Met, "Met is set in case no kill succeeds")
	require.Len(t, d.OverLimit, 2)
	var status v1.PodStatus
	d.OverLimit[0].Apply(&status)
	require.Equal(t, "a", d.OverLimit[0].Pod.Name)
	require.Equal(t, "Evicted", status.Reason)
	require.Empty(t, status.Conditions)
	p.LocalStorage = false
	require.Empty(t, p.Decide(State{}, u, pods, noon).OverLimit)
}

func TestStorageLimitsOfPodAndContainer(t *testing.T) {
	for _, c := range []struct {
		disks               Disks
		root, logs, volumes uint64
		want                Signal
	}{
		{OneDisk, 5, 5, 0, ""},
		{OneDisk, 5, 5, 1, PodStorageLimit},
		{OneDisk, 6, 5, 0, PodStorageLimit},
		{ImageDisk, 1, 5, 4, ""},
		{ImageDisk, 60, 5, 5, PodStorageLimit},
		{ImageDisk, 0, 11, 0, PodStorageLimit},
		{SplitDisk, 11, 0, 0, PodStorageLimit},
	} {
		signal, _ := exceeded(newPod("a", limits("10")), diskUse(c.root, c.logs, c.volumes), c.disks)
		require.Equal(t, c.want, signal, "%+v", c)
	}
	// CVE-2020-8557: a container may fill /etc/hosts or its termination message.
	u := diskUse(5, 5, 0)
	for files, want := range map[uint64]Signal{0: "", 1: PodStorageLimit} {
		u.Files.Bytes = &files
		signal, _ := exceeded(newPod("a", limits("10")), u, OneDisk)
		require.Equal(t, want, signal)
	}
	two := newPod("a", limits("10"))
	other := *two.Spec.Containers[0].DeepCopy()
	other.Name = "other"
	two.Spec.Containers = append(two.Spec.Containers, other)
	signal, message := exceeded(two, diskUse(6, 5, 0), OneDisk)
	require.Equal(t, ContainerStorageLimit, signal)
	require.Contains(t, message, "Container c ")
	for disks, want := range map[Disks]Signal{OneDisk: ContainerStorageLimit, ImageDisk: "", SplitDisk: ContainerStorageLimit} {
		signal, _ = exceeded(two, diskUse(11, 0, 0), disks)
		require.Equal(t, want, signal, "the writable layer counts unless it is on the image filesystem: %v", disks)
	}
	for _, limit := range []string{"0", "10E", "9223372036854775808"} {
		signal, _ = exceeded(newPod("a", limits(limit)), diskUse(6, 5, 0), OneDisk)
		require.Empty(t, signal, limit)
		signal, _ = exceeded(newPod("a", emptyDir(limit)), PodUsage{EmptyDirs: map[string]uint64{"v": 1}}, OneDisk)
		require.Empty(t, signal, limit)
	}
}

// A resource without requests is blamed on no container, and is formatted as a count.
func TestProcessShortage(t *testing.T) {
	for signal, name := range map[Signal]string{PIDAvailable: "pids", NodeFSInodesFree: "inodes"} {
		p := Policy{Thresholds: []Threshold{hard(signal, 4096)}}
		pod := newPod("a")
		u := usageOf(signal, 2048, 10000, noon)
		u.Pods["a"] = diskUse(20*mi, 3*mi, 0)
		d := p.Decide(State{}, u, []*v1.Pod{pod}, noon)
		v, ok := p.Candidate(d, u, []*v1.Pod{pod}, noon)
		require.True(t, ok)
		require.Equal(t, "The node was low on resource: "+name+". Threshold quantity: 4096, available: 2048. ", v.Message)
		require.Equal(t, map[string]string{"starved_resource": name}, v.Annotations)
	}
}

// A threshold at or above the capacity is ignored; the other threshold of the signal acts.
func TestImpossibleThreshold(t *testing.T) {
	soft := hard(MemoryAvailable, 1000)
	soft.Grace = time.Second
	p := Policy{Thresholds: []Threshold{soft, hard(MemoryAvailable, 100)}}
	d := p.Decide(State{}, usageOf(MemoryAvailable, 100, 1000, noon), nil, noon)
	require.Equal(t, Pressure{}, d.Pressure)
	require.False(t, p.Near(usageOf(MemoryAvailable, 100, 1000, noon)))
	d = p.Decide(State{}, usageOf(MemoryAvailable, 99, 1000, noon), nil, noon)
	require.True(t, d.Met.Threshold.Hard())
	require.True(t, hard(PIDAvailable, 1).Impossible(Reading{Capacity: 1}))
	require.False(t, hard(PIDAvailable, 1).Impossible(Reading{}), "unknown capacity")
}

// After the clock was set back by an hour, evictions continue without a delay of an hour.
func TestClockSetBack(t *testing.T) {
	p := Policy{Thresholds: []Threshold{hard(ImageFSAvailable, 100)}}
	d := p.Decide(State{}, usageOf(ImageFSAvailable, 99, 1000, noon), nil, noon)
	require.NotNil(t, d.Met)
	early := noon.Add(-time.Hour)
	d = p.Decide(d.State, usageOf(ImageFSAvailable, 99, 1000, early), nil, early)
	require.Nil(t, d.Met)
	early = early.Add(time.Second)
	require.NotNil(t, p.Decide(d.State, usageOf(ImageFSAvailable, 99, 1000, early), nil, early).Met)
}

// N30
func TestMinimumReclaim(t *testing.T) {
	th := hard(NodeFSAvailable, 1000*mi)
	th.MinReclaim = Value{Amount: 500 * mi}
	p := Policy{Thresholds: []Threshold{th}}
	at := func(state State, s int, available uint64) Decision {
		now := noon.Add(time.Duration(s) * time.Second)
		return p.Decide(state, usageOf(NodeFSAvailable, available, 10000*mi, now), nil, now)
	}
	require.Nil(t, at(State{}, 0, 1200*mi).Met, "MinReclaim applies only after the threshold has acted")
	d := at(State{}, 0, 999*mi)
	require.NotNil(t, d.Met)
	require.False(t, d.Cleared(usageOf(NodeFSAvailable, 1499*mi, 10000*mi, noon), noon))
	require.True(t, d.Cleared(usageOf(NodeFSAvailable, 1500*mi, 10000*mi, noon), noon))
	require.False(t, d.Cleared(Usage{}, noon))
	require.False(t, d.Cleared(usageOf(NodeFSAvailable, 1500*mi, 10000*mi, noon.Add(1)), noon), "measured in the future")
	d = at(d.State, 10, 1499*mi)
	require.NotNil(t, d.Met)
	d = at(d.State, 20, 1500*mi)
	require.Nil(t, d.Met)
	require.Nil(t, at(d.State, 30, 1200*mi).Met)
}

// N31
func TestUnknownReadingCausesNoEviction(t *testing.T) {
	p := Policy{Thresholds: []Threshold{hard(MemoryAvailable, 100)}, Transition: time.Minute}
	d := p.Decide(State{}, usageOf(MemoryAvailable, 99, 1000, noon), nil, noon)
	require.NotNil(t, d.Met)
	later := noon.Add(10 * time.Second)
	stale := p.Decide(d.State, usageOf(MemoryAvailable, 99, 1000, noon), nil, later)
	require.Nil(t, stale.Met)
	require.True(t, stale.Pressure.Memory)
	require.Nil(t, p.Decide(stale.State, usageOf(MemoryAvailable, 99, 1000, noon), nil, later).Met)
	require.NotNil(t, p.Decide(stale.State, usageOf(MemoryAvailable, 99, 1000, later), nil, later).Met)

	fresh := p.Decide(d.State, usageOf(MemoryAvailable, 99, 1000, later), nil, later)
	require.Nil(t, p.Decide(fresh.State, usageOf(MemoryAvailable, 99, 1000, later), nil, later.Add(time.Second)).Met, "each reading acts once")

	missing := p.Decide(d.State, Usage{}, nil, later)
	require.Nil(t, missing.Met)
	require.Nil(t, p.Decide(missing.State, usageOf(MemoryAvailable, 99, 1000, noon), nil, later).Met, "an old reading does not act again")
	for _, at := range []time.Time{{}, noon.Add(1)} {
		d := p.Decide(State{}, usageOf(MemoryAvailable, 0, 1000, at), nil, noon)
		require.Nil(t, d.Met)
		require.Equal(t, Pressure{}, d.Pressure)
	}
}

func TestOrderOfSignals(t *testing.T) {
	p := Policy{Thresholds: []Threshold{hard(PIDAvailable, 10), hard(ImageFSAvailable, 10), hard(MemoryAvailable, 10)}}
	u := Usage{Signals: map[Signal]Reading{PIDAvailable: {Time: noon}, ImageFSAvailable: {Time: noon}, MemoryAvailable: {Time: noon}}}
	d := p.Decide(State{}, u, nil, noon)
	require.Equal(t, Pressure{true, true, true}, d.Pressure)
	require.Equal(t, MemoryAvailable, d.Met.Threshold.Signal)
	delete(u.Signals, MemoryAvailable)
	require.Equal(t, ImageFSAvailable, p.Decide(State{}, u, nil, noon).Met.Threshold.Signal)
}

func TestReclaimFor(t *testing.T) {
	all, images, containers := Reclaim{true, true}, Reclaim{UnusedImages: true}, Reclaim{DeadContainers: true}
	for disks, want := range map[Disks][2]Reclaim{OneDisk: {all, all}, ImageDisk: {{}, all}, SplitDisk: {containers, images}} {
		require.Equal(t, want, [2]Reclaim{reclaimFor(NodeFSAvailable, disks), reclaimFor(ImageFSInodesFree, disks)}, disks)
		require.Equal(t, Reclaim{}, reclaimFor(MemoryAvailable, disks))
		require.Equal(t, Reclaim{}, reclaimFor(PIDAvailable, disks))
	}
}

// evictionOrder returns the pods in the order of eviction.
func evictionOrder(s Signal, pods []*v1.Pod, u Usage) (out []*v1.Pod) {
	for len(pods) > 0 {
		next := chooseVictim(s, pods, u)
		out, pods = append(out, next), without(pods, next.UID)
	}
	return out
}

func TestEvictionOrder(t *testing.T) {
	u := Usage{Pods: map[types.UID]PodUsage{
		"within": memoryUse(50 * mi), "over": memoryUse(40 * mi), "far-over": memoryUse(90 * mi), "over-high": memoryUse(900 * mi),
	}}
	pods := []*v1.Pod{
		newPod("within", requests(v1.ResourceMemory, "60Mi"), priority(-5)), newPod("over-high", priority(7)), newPod("over"), newPod("far-over"), newPod("unmeasured", priority(9)),
	}
	require.Equal(t, []string{"unmeasured", "far-over", "over", "over-high", "within"}, names(evictionOrder(MemoryAvailable, pods, u)))

	disk := Usage{Pods: map[types.UID]PodUsage{"writes": diskUse(9, 0, 0), "logs": diskUse(0, 5, 0), "fills": diskUse(0, 0, 7)}}
	pods = []*v1.Pod{newPod("logs"), newPod("fills"), newPod("writes")}
	for disks, want := range map[Disks][2]string{OneDisk: {"writes", "writes"}, ImageDisk: {"fills", "writes"}, SplitDisk: {"writes", "logs"}} {
		disk.Disks = disks
		require.Equal(t, want, [2]string{evictionOrder(NodeFSAvailable, pods, disk)[0].Name, evictionOrder(ImageFSAvailable, pods, disk)[0].Name}, disks)
	}

	few, many := uint64(3), uint64(2000)
	pids := Usage{Pods: map[types.UID]PodUsage{"few": {Processes: &few}, "many": {Processes: &many}, "high": {Processes: &many}}}
	require.Equal(t, []string{"many", "few", "unmeasured", "high"}, names(evictionOrder(PIDAvailable, []*v1.Pod{newPod("high", priority(1)), newPod("unmeasured"), newPod("few"), newPod("many")}, pids)))

	edge := Usage{Pods: map[types.UID]PodUsage{"just": memoryUse(60*mi + 1), "equal": memoryUse(60 * mi)}}
	request := requests(v1.ResourceMemory, "60Mi")
	pods = []*v1.Pod{newPod("equal", request), newPod("just", request, priority(1))}
	require.Equal(t, []string{"just", "equal"}, names(evictionOrder(MemoryAvailable, pods, edge)), "usage equal to the request does not exceed it")
	edge.Pods["a byte"] = memoryUse(1)
	pods = []*v1.Pod{newPod("equal", request), newPod("a byte", priority(1))}
	require.Equal(t, []string{"a byte", "equal"}, names(evictionOrder(MemoryAvailable, pods, edge)), "one byte exceeds a missing request")
	pods = []*v1.Pod{newPod("just", requests(v1.ResourceMemory, "10E")), newPod("equal")}
	require.Equal(t, []string{"equal", "just"}, names(evictionOrder(MemoryAvailable, pods, edge)), "usage does not exceed a request above the maximum")
	pods = []*v1.Pod{newPod("no request", priority(1)), newPod("request", request)}
	require.Equal(t, []string{"request", "no request"}, names(evictionOrder(MemoryAvailable, pods, Usage{})), "unmeasured pods exceed no request")
}

// The usage on a disk is the sum of the parts on that disk, and saturates.
func TestPodUseByDiskLayout(t *testing.T) {
	u := diskUse(1, 2, 4)
	u.Files.Bytes = new(uint64(8))
	for disks, want := range map[Disks][2]uint64{OneDisk: {15, 15}, ImageDisk: {14, 1}, SplitDisk: {15, 0}} {
		node, _ := podUse(NodeFSAvailable, u, disks)
		images, _ := podUse(ImageFSAvailable, u, disks)
		require.Equal(t, want, [2]uint64{node, images}, disks)
	}
	for _, most := range []PodUsage{diskUse(math.MaxUint64, 1, 0), diskUse(1, math.MaxUint64-1, 1), diskUse(0, 0, math.MaxUint64)} {
		used, _ := podUse(NodeFSAvailable, most, OneDisk)
		require.Equal(t, uint64(math.MaxUint64), used)
	}
}

// A pod counts as measured if any usage on the disk is available.
func TestPartlyMeasuredDiskUse(t *testing.T) {
	n := uint64(5)
	one := func(c ContainerUsage) PodUsage {
		return PodUsage{Containers: map[string]ContainerUsage{"c": c, "d": {}}}
	}
	root, logs, volumes := parts{root: true}, parts{logs: true}, parts{volumes: true}
	for of, use := range map[parts]PodUsage{
		root: one(ContainerUsage{Root: Disk{Bytes: &n}}), logs: one(ContainerUsage{Logs: Disk{Bytes: &n}}), volumes: {Volumes: Disk{Bytes: &n}}, {}: {},
	} {
		for _, on := range []parts{root, logs, volumes, {true, true, true}} {
			used, measured := use.disk(on, bytesOf)
			require.Equal(t, of != parts{} && (on == of || on == parts{true, true, true}), measured, "%+v on %+v", of, on)
			require.Equal(t, measured, used == n)
			_, measured = use.disk(on, inodesOf)
			require.False(t, measured)
		}
	}
}

// randomUsage returns a random node.
func randomUsage(r *rand.Rand, n int, at time.Time) (Usage, []*v1.Pod) {
	u := Usage{Signals: map[Signal]Reading{}, Pods: map[types.UID]PodUsage{}, Disks: Disks(r.IntN(3))}
	for _, s := range signals() {
		if r.IntN(4) > 0 {
			u.Signals[s] = Reading{Available: r.Uint64N(200), Capacity: 1000, Time: at.Add(time.Duration(r.IntN(4)-2) * time.Second)}
		}
	}
	var pods []*v1.Pod
	for i := range n {
		pod := newPod(fmt.Sprintf("pod-%d", i), priority(int32(r.IntN(3))), requests(v1.ResourceMemory, fmt.Sprint(r.IntN(100))))
		if r.IntN(4) == 0 {
			static(pod)
		}
		pods = append(pods, pod)
		if r.IntN(5) > 0 {
			u.Pods[pod.UID] = memoryUse(r.Uint64N(200))
		}
	}
	return u, pods
}
