package syncloop

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/run"
)

// dirty collects events for the loop. It is a set: its size is bounded by the number of pods and
// sources, and add never blocks.
type dirty struct {
	mu           sync.Mutex
	sources      map[string]struct{}
	syncs        map[types.UID]Kinds
	spare        map[types.UID]Kinds // empty; replaces syncs while the loop reads it
	housekeeping bool
	// wake is signalled when an event was added.
	wake run.Signal
}

func newDirty() *dirty {
	return &dirty{
		sources: map[string]struct{}{},
		syncs:   map[types.UID]Kinds{},
		spare:   map[types.UID]Kinds{},
		wake:    run.NewSignal(),
	}
}

func (d *dirty) add(e Event) {
	d.mu.Lock()
	switch {
	case e.Kind == PodsChanged:
		d.sources[e.Source] = struct{}{}
	case e.Kind == Housekeeping:
		d.housekeeping = true
	case e.Kind.syncs() && e.UID != "":
		d.syncs[e.UID] = d.syncs[e.UID].With(e.Kind)
	default:
		d.mu.Unlock()
		return
	}
	d.mu.Unlock()
	d.wake.Wake()
}

func (d *dirty) takeSources() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	names := slices.Sorted(maps.Keys(d.sources))
	clear(d.sources)
	return names
}

// takeSyncs removes and returns all pods to sync, sorted by UID. Only the loop calls it. It sorts
// without the lock, so that add does not block.
func (d *dirty) takeSyncs() []Sync {
	d.mu.Lock()
	taken := d.syncs
	if len(taken) == 0 {
		d.mu.Unlock()
		return nil
	}
	d.syncs, d.spare = d.spare, nil
	d.mu.Unlock()

	syncs := make([]Sync, 0, len(taken))
	for uid, kinds := range taken {
		syncs = append(syncs, Sync{UID: uid, Kinds: kinds})
	}
	slices.SortFunc(syncs, func(a, b Sync) int { return cmp.Compare(a.UID, b.UID) })
	clear(taken)

	d.mu.Lock()
	defer d.mu.Unlock()
	d.spare = taken
	return syncs
}

func (d *dirty) takeHousekeeping() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	requested := d.housekeeping
	d.housekeeping = false
	return requested
}

func (d *dirty) size() (sources, pods int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.sources), len(d.syncs)
}
