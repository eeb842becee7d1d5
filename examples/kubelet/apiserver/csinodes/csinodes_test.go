package csinodes

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/examples/kubelet/apiserver/apitest"
	"github.com/podwright/podwright/examples/kubelet/csi"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type registry map[string]csi.NodeInfo

func (r registry) Node(driver string) (csi.NodeInfo, bool) {
	info, ok := r[driver]
	return info, ok
}

// scene is a running manager with a server and a Node that the manager sees at once.
type scene struct {
	*Manager
	t       *testing.T
	server  *apitest.Server
	seen    atomic.Pointer[v1.Node]
	drivers registry
}

func newScene(t *testing.T) *scene {
	s := &scene{t: t, server: apitest.Start(t), drivers: registry{}}
	var err error
	s.Manager, err = New(Config{Client: s.server.Client(t), NodeName: "worker", Node: s.seen.Load})
	require.NoError(t, err)
	t.Cleanup(func() { require.ErrorIs(t, s.Run(t.Context()), ErrAlreadyRun) })
	apitest.Run(t, s.Run)
	return s
}

// put writes a Node to the server, and shows it to the manager.
func (s *scene) put(change func(*v1.Node)) {
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker"}}
	if there, ok := apitest.Find(s.server, n); ok {
		n = there
	}
	if change != nil {
		change(n)
	}
	s.server.Put(n)
	s.show()
}

func (s *scene) show() {
	s.seen.Store(s.node())
	s.Wake()
	time.Sleep(time.Millisecond)
}

func (s *scene) node() *v1.Node {
	n, ok := apitest.Find(s.server, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker"}})
	require.True(s.t, ok)
	return n
}

func (s *scene) csiNode() *storagev1.CSINode {
	n, ok := apitest.Find(s.server, &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "worker"}})
	if !ok {
		return nil
	}
	return n
}

// register registers a driver, or deregisters it without info.
func (s *scene) register(driver string, info ...csi.NodeInfo) {
	delete(s.drivers, driver)
	for _, i := range info {
		s.drivers[driver] = i
	}
	s.Look(driver, s.drivers)
	time.Sleep(time.Millisecond)
}

// entries returns the node's IDs in both objects, which must agree.
func (s *scene) entries() string {
	var ids []string
	for _, d := range s.csiNode().Spec.Drivers {
		ids = append(ids, `"`+d.Name+`":"`+d.NodeID+`"`)
	}
	slices.Sort(ids)
	text := "{" + strings.Join(ids, ",") + "}"
	annotation, ok := s.node().Annotations[Annotation]
	require.Equal(s.t, len(ids) > 0, ok)
	if ok {
		require.Equal(s.t, annotation, text)
	}
	return text
}

func in(zone string) csi.NodeInfo {
	return csi.NodeInfo{NodeID: "id", MaxVolumes: 7, Topology: map[string]string{"topology.d/zone": zone}}
}

// The CSINode exists as soon as the Node does, and has an entry for each registered driver. No
// write is repeated.
func TestEntriesFollowDrivers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		s.register("d", in("a"))
		time.Sleep(time.Hour)
		require.Empty(t, s.server.Calls(), "there is no Node")
		require.ErrorIs(t, s.Err(), ErrNoNode)
		require.False(t, s.Initialised())

		s.put(nil)
		require.NoError(t, s.Err())
		require.True(t, s.Initialised())
		require.Equal(t, []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "worker", UID: s.node().UID}}, s.csiNode().OwnerReferences)
		require.Equal(t, []storagev1.CSINodeDriver{{Name: "d", NodeID: "id", TopologyKeys: []string{"topology.d/zone"},
			Allocatable: &storagev1.VolumeNodeResources{Count: new(int32(7))}}}, s.csiNode().Spec.Drivers)
		require.Equal(t, `{"d":"id"}`, s.entries())
		require.Equal(t, map[string]string{"topology.d/zone": "a"}, s.node().Labels)

		s.show()
		s.register("e", csi.NodeInfo{NodeID: "e1"})
		s.show()
		require.Equal(t, `{"d":"id","e":"e1"}`, s.entries())
		version, calls := s.csiNode().ResourceVersion, len(s.server.Calls())
		for range 10 {
			s.show()
		}
		require.Len(t, s.server.Calls(), calls, "the Node has all entries")
		for range 10 {
			s.register("e", csi.NodeInfo{NodeID: "e1"})
		}
		time.Sleep(time.Hour)
		require.Equal(t, version, s.csiNode().ResourceVersion)
		require.Equal(t, 2, s.server.CountCalls("patch", "nodes"))

		s.register("d")
		s.show()
		require.Equal(t, `{"e":"e1"}`, s.entries())
		require.Equal(t, map[string]string{"topology.d/zone": "a"}, s.node().Labels, "volumes may refer to it")
		s.register("e", csi.NodeInfo{NodeID: "e2"})
		s.show()
		require.Equal(t, `{"e":"e2"}`, s.entries())
		s.register("e")
		require.Equal(t, "{}", s.entries())
		s.mu.Lock()
		defer s.mu.Unlock()
		require.Empty(t, s.Manager.drivers, "no removed driver is remembered")
	})
}

// Entries by others stay.
func TestForeignEntriesStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		other := storagev1.CSINodeDriver{Name: "other", NodeID: "o"}
		s.server.Put(&storagev1.CSINode{
			ObjectMeta: metav1.ObjectMeta{Name: "worker", Labels: map[string]string{"a": "b"}},
			Spec:       storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{other}},
		})
		s.put(func(n *v1.Node) {
			n.Annotations = map[string]string{Annotation: `{"other":"o"}`, "x": "y"}
			n.Labels = map[string]string{"l": "m"}
		})
		require.Equal(t, s.node().UID, s.csiNode().OwnerReferences[0].UID, "it now has the owner")
		s.register("other") // deregistered, but never registered here
		s.register("d", in("a"))
		s.show()
		require.Equal(t, `{"d":"id","other":"o"}`, s.entries())
		s.register("d")
		require.Equal(t, `{"other":"o"}`, s.entries())
		require.Equal(t, "y", s.node().Annotations["x"])
		require.Equal(t, map[string]string{"l": "m", "topology.d/zone": "a"}, s.node().Labels)
		require.Equal(t, []storagev1.CSINodeDriver{other}, s.csiNode().Spec.Drivers)
		require.Equal(t, map[string]string{"a": "b"}, s.csiNode().Labels)
	})
}

// A label with another value is not overwritten: the driver gets no entries until the label is
// removed, other drivers get theirs.
func TestConflictingTopology(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		s.put(func(n *v1.Node) { n.Labels = map[string]string{"topology.d/zone": "b"} })
		s.register("d", in("a"))
		s.register("e", csi.NodeInfo{NodeID: "e1"})
		s.show()
		var topology *TopologyError
		require.ErrorAs(t, s.Err(), &topology)
		require.Equal(t, TopologyError{Driver: "d", Label: "topology.d/zone", Has: "b", Wants: "a"}, *topology)
		require.Equal(t, `{"e":"e1"}`, s.entries())
		require.Equal(t, "b", s.node().Labels["topology.d/zone"])
		s.put(func(n *v1.Node) { delete(n.Labels, "topology.d/zone") })
		require.NoError(t, s.Err())
		require.Equal(t, `{"d":"id","e":"e1"}`, s.entries())
	})
}

// A refused entry of one driver does not affect other drivers, and is retried with growing pauses.
func TestRefusedEntryIsRetried(t *testing.T) {
	for _, status := range []int{http.StatusForbidden, http.StatusUnprocessableEntity, http.StatusBadRequest} {
		synctest.Test(t, func(t *testing.T) {
			s := newScene(t)
			s.put(nil)
			var tries atomic.Int32
			s.server.SetFault(func(c apitest.Call) apitest.Fault {
				if c.Verb == "patch" && strings.Contains(string(c.Body), `\"bad\"`) {
					tries.Add(1)
					return apitest.Fault{Status: status}
				}
				return apitest.Fault{}
			})
			s.register("bad", csi.NodeInfo{NodeID: "b"})
			s.register("good", csi.NodeInfo{NodeID: "g"})
			require.Equal(t, `{"good":"g"}`, s.entries())
			require.ErrorContains(t, s.Err(), "CSI driver bad")
			s.seen.Store(s.node())
			time.Sleep(time.Hour)
			require.Less(t, tries.Load(), int32(150))
			require.Greater(t, tries.Load(), int32(70))
			s.server.SetFault(nil)
			time.Sleep(time.Minute)
			require.Equal(t, `{"bad":"b","good":"g"}`, s.entries())
			require.NoError(t, s.Err())
		})
	}
}

// If others write to both objects at the same time, the manager reads them again and loses no
// changes. The last seen Node may be outdated.
func TestConflicts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		s.put(nil)
		var once sync.Once
		s.server.SetFault(func(c apitest.Call) apitest.Fault {
			if c.Verb == "update" {
				once.Do(func() {
					n := s.csiNode()
					n.Spec.Drivers = append(n.Spec.Drivers, storagev1.CSINodeDriver{Name: "other", NodeID: "o"})
					s.server.Put(n)
				})
			}
			return apitest.Fault{}
		})
		n := s.node() // the last seen Node lacks this
		n.Annotations = map[string]string{Annotation: `{"other":"o"}`}
		s.server.Put(n)
		began := time.Now()
		s.register("d", in("a"))
		require.Equal(t, `{"d":"id","other":"o"}`, s.entries())
		require.Less(t, time.Since(began), 10*time.Millisecond, "without a pause")
		require.NoError(t, s.Err())

		s.server.SetFault(func(c apitest.Call) apitest.Fault {
			if c.Verb == "update" {
				return apitest.Fault{Status: http.StatusConflict}
			}
			return apitest.Fault{}
		})
		calls := s.server.CountCalls("update", "csinodes")
		s.register("e", csi.NodeInfo{NodeID: "e1"})
		require.Equal(t, attempts, s.server.CountCalls("update", "csinodes")-calls, "then it pauses")
		require.Error(t, s.Err())
		s.server.SetFault(nil)
		time.Sleep(time.Minute)
		require.Equal(t, `{"d":"id","e":"e1","other":"o"}`, s.entries())
	})
}

// An unavailable server blocks no call. When it is back, it gets the current state.
func TestOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		s.put(nil)
		info := in("a")
		s.register("d", info)
		info.Topology["topology.d/zone"] = "b" // the caller may change it
		s.register("e", csi.NodeInfo{NodeID: "e1"})
		s.show()
		require.NoError(t, s.Err())
		s.server.SetDown(true)
		began := time.Now()
		for _, name := range []string{"d", "e", "f"} {
			delete(s.drivers, name)
			s.Look(name, s.drivers)
		}
		s.drivers["e"], s.drivers["g"] = csi.NodeInfo{NodeID: "e2"}, csi.NodeInfo{NodeID: "g1"}
		s.Look("e", s.drivers)
		s.Look("g", s.drivers)
		s.Wake()
		require.Zero(t, time.Since(began))
		time.Sleep(3 * time.Hour)
		require.Error(t, s.Err())
		require.True(t, s.Initialised())
		require.Equal(t, `{"d":"id","e":"e1"}`, s.entries())
		s.server.SetDown(false)
		time.Sleep(time.Minute)
		require.Equal(t, `{"e":"e2","g":"g1"}`, s.entries())
		require.NoError(t, s.Err())

		s.server.SetFault(func(apitest.Call) apitest.Fault { return apitest.Fault{Status: http.StatusInternalServerError} })
		s.register("e", csi.NodeInfo{NodeID: "e3"})
		s.server.SetFault(nil)
		time.Sleep(time.Second)
		require.Equal(t, `{"e":"e3","g":"g1"}`, s.entries(), "the pauses are short again")
	})
}

// A failing server gets requests about one driver only, not about each.
func TestFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		for _, name := range []string{"d", "e", "f"} {
			s.register(name, csi.NodeInfo{NodeID: name})
		}
		s.server.SetFault(func(c apitest.Call) apitest.Fault {
			if c.Verb == "patch" {
				return apitest.Fault{Status: http.StatusInternalServerError}
			}
			return apitest.Fault{}
		})
		s.put(nil)
		require.Equal(t, 1, s.server.CountCalls("patch", "nodes"))
		require.ErrorContains(t, s.Err(), "CSI driver d: ")
	})
}

// A driver that registers again while its entries are being removed gets them again.
func TestDriverReturnsDuringRemoval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		s.put(nil)
		s.register("d", in("a"))
		back := registry{"d": in("a")}
		var once sync.Once
		s.server.SetFault(func(c apitest.Call) apitest.Fault {
			if c.Verb == "update" {
				once.Do(func() { s.Look("d", back) })
			}
			return apitest.Fault{}
		})
		s.register("d")
		require.Equal(t, `{"d":"id"}`, s.entries())
		require.Equal(t, 3, s.server.CountCalls("update", "csinodes"))
	})
}

// Lost responses do no harm, although steps may already be done. The last seen Node stays outdated.
func TestLostResponses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		var mu sync.Mutex
		seen := map[string]int{}
		s.server.SetFault(func(c apitest.Call) apitest.Fault {
			mu.Lock()
			defer mu.Unlock()
			seen[c.Verb]++
			return apitest.Fault{Cut: c.Verb != "get" && seen[c.Verb]%2 == 1}
		})
		s.put(nil)
		s.register("d", in("a"))
		time.Sleep(time.Minute)
		require.Equal(t, `{"d":"id"}`, s.entries())
		s.register("d")
		time.Sleep(time.Minute)
		require.Equal(t, `{}`, s.entries())
		require.NoError(t, s.Err())
		require.Subset(t, slices.Collect(maps.Keys(seen)), []string{"create", "update", "patch"})
	})
}

// A recreated Node gets a CSINode of its own. A deleted CSINode is created again.
func TestRecreatedNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		again := func() *storagev1.CSINode {
			first := s.csiNode()
			s.server.Remove(s.node())
			s.seen.Store(nil)
			s.Wake()
			s.put(nil)
			second := s.csiNode()
			require.NotEqual(t, first.UID, second.UID)
			require.Equal(t, s.node().UID, second.OwnerReferences[0].UID)
			calls := s.server.Calls()
			deleted := slices.IndexFunc(calls, func(c apitest.Call) bool {
				return c.Verb == "delete" && strings.Contains(string(c.Body), string(first.UID))
			})
			require.GreaterOrEqual(t, deleted, 0, "by its UID")
			return second
		}
		s.put(nil)
		again()
		s.register("d", in("a"))
		s.show()
		second := again()
		require.Equal(t, `{"d":"id"}`, s.entries())
		require.Equal(t, map[string]string{"topology.d/zone": "a"}, s.node().Labels)

		s.server.Remove(second)
		time.Sleep(s.cfg.Period)
		require.Equal(t, `{"d":"id"}`, s.entries())

		now, leaving := metav1.Now(), s.node()
		leaving.DeletionTimestamp = &now
		s.server.Put(leaving)
		s.register("e", csi.NodeInfo{NodeID: "e1"}) // the last seen Node is not being deleted
		require.ErrorIs(t, s.Err(), ErrNoNode)
		require.Equal(t, `{"d":"id"}`, s.entries())
		s.show()
		calls := len(s.server.Calls())
		s.register("e", csi.NodeInfo{NodeID: "e1"})
		require.ErrorIs(t, s.Err(), ErrNoNode)
		require.Len(t, s.server.Calls(), calls)
	})
}

func TestConfigIsChecked(t *testing.T) {
	_, err := New(Config{Period: -1})
	require.EqualError(t, err, `csinodes: Config.Client is required
csinodes: Config.NodeName is required
csinodes: Config.Node is required
csinodes: Config.Period is negative: -1ns`)
}
