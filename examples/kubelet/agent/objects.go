package agent

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/volume"
	"github.com/podwright/podwright/volume/objects"
)

// objectKinds are what static pods may refer to where a folder has such objects.
var objectKinds = []string{objects.KindConfigMap, objects.KindSecret, objects.KindServiceAccount, objects.KindTrustBundle, objects.KindCSIDriver}

// lookup finds what pods refer to by name, for volumes, environment and image pulls.
type lookup interface {
	objects.ConfigMaps
	objects.Secrets
	objects.Tokens
	objects.TrustBundles
	objects.CSIDrivers
}

// named is where this agent finds it: at an API server, in a folder, or nowhere. It is read
// before there is a connection, so that what changes is kept until somebody follows it.
type named struct {
	lookup
	folder  *objects.Dir // nil without --objects-dir
	changed run.Signal
	mu      *sync.Mutex
	changes map[volume.Object]bool
}

func (g *ground) newNamed() (named, error) {
	n := named{lookup: nothing{}, changed: run.NewSignal(), mu: new(sync.Mutex), changes: map[volume.Object]bool{}}
	if g.cluster != nil {
		n.lookup = g.cluster.objects
		return n, nil
	}
	if g.cfg.Flags.ObjectsDir == "" {
		return n, nil
	}
	var err error
	n.folder, err = objects.NewDir(objects.DirConfig{Path: g.cfg.Flags.ObjectsDir, OnChange: n.keep, Logger: g.cfg.Logger})
	n.lookup = n.folder
	return n, err
}

// keep notes which objects have changed.
func (n named) keep(changed []volume.Object) {
	n.mu.Lock()
	for _, o := range changed {
		n.changes[o] = true
	}
	n.mu.Unlock()
	n.changed.Wake()
}

// follow tells of changes, those of before included, until ctx ends.
func (n named) follow(ctx context.Context, tell func([]volume.Object)) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.changed:
		}
		n.mu.Lock()
		changed := slices.Collect(maps.Keys(n.changes))
		clear(n.changes)
		n.mu.Unlock()
		tell(changed)
	}
}

// run keeps what is known of the folder up to date.
func (n named) run(ctx context.Context) error {
	if n.folder == nil {
		<-ctx.Done()
		return nil
	}
	return n.folder.Run(ctx)
}

// health names what does not let itself be read.
func (n named) health() error {
	if n.folder == nil {
		return nil
	}
	return n.folder.CheckHealth()
}

// problems are files that cannot be used.
func (n named) problems() []objects.Problem {
	if n.folder == nil {
		return nil
	}
	return n.folder.Problems()
}

// followObjects has what objects are used for brought up to date until ctx ends.
func (n *node) followObjects(ctx context.Context) error {
	n.named.follow(ctx, n.objectsChanged)
	return nil
}

// objectsChanged tells those whom it concerns that objects are different: volumes, and
// pods that may wait for one for their environment or an image.
func (n *node) objectsChanged(changed []volume.Object) {
	for _, o := range changed {
		n.volumes.manager.Changed(o)
	}
	for uid, pod := range n.current() {
		if slices.ContainsFunc(objects.References(pod), func(o volume.Object) bool { return isOneOf(o, changed) }) {
			n.dirty.Emit(syncloop.Event{Kind: syncloop.PodDirty, UID: uid})
		}
	}
}

// isOneOf tells whether a pod that refers to an object, or without a name to any of its
// kind, refers to one of several.
func isOneOf(o volume.Object, several []volume.Object) bool {
	return slices.ContainsFunc(several, func(other volume.Object) bool {
		return o == other || o.Name == "" && o.Kind == other.Kind
	})
}

// errNoObjects says why there are no secrets, nor others.
var errNoObjects = errors.New("standalone: there is no API server to read it from, and no --objects-dir")

// nothing is the lookup of an agent that has neither.
type nothing struct{}

func (nothing) ConfigMap(context.Context, string, string) (*v1.ConfigMap, error) {
	return nil, errNoObjects
}

func (nothing) Secret(context.Context, string, string) (*v1.Secret, error) { return nil, errNoObjects }

func (nothing) Token(context.Context, objects.TokenRequest) (objects.Token, error) {
	return objects.Token{}, errNoObjects
}

func (nothing) CSIDriver(string) (*storagev1.CSIDriver, error) { return nil, errNoObjects }

func (nothing) TrustBundle(context.Context, string) (string, error) { return "", errNoObjects }

func (nothing) TrustBundlesOf(context.Context, string, *metav1.LabelSelector) ([]string, error) {
	return nil, errNoObjects
}
