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

	"github.com/podwright/podwright/cri/images/credentials"
	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/volume"
	"github.com/podwright/podwright/volume/objects"
)

// objectKinds are the kinds of objects that static pods may reference if a folder contains such
// objects.
var objectKinds = []string{objects.KindConfigMap, objects.KindSecret, objects.KindServiceAccount, objects.KindTrustBundle, objects.KindCSIDriver}

// lookup finds the objects that pods reference by name, for volumes, environment and image pulls.
type lookup interface {
	objects.ConfigMaps
	objects.Secrets
	objects.Tokens
	objects.TrustBundles
	objects.CSIDrivers
}

// objectChanges collects changed objects until a follower takes them. It is safe for concurrent
// use.
type objectChanges struct {
	signal  run.Signal
	mu      sync.Mutex
	objects map[volume.Object]bool
}

func newObjectChanges() *objectChanges {
	return &objectChanges{signal: run.NewSignal(), objects: map[volume.Object]bool{}}
}

func (c *objectChanges) add(changed []volume.Object) {
	c.mu.Lock()
	for _, o := range changed {
		c.objects[o] = true
	}
	c.mu.Unlock()
	c.signal.Wake()
}

// follow calls onChange with changes, earlier ones included, until ctx is done.
func (c *objectChanges) follow(ctx context.Context, onChange func([]volume.Object)) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.signal:
		}
		c.mu.Lock()
		changed := slices.Collect(maps.Keys(c.objects))
		clear(c.objects)
		c.mu.Unlock()
		onChange(changed)
	}
}

// references resolves the objects that pods reference by name: at an API server, in a folder, or
// not at all.
type references struct {
	lookup
	accounts credentials.ServiceAccounts // nil without an API server
	folder   *objects.Dir                // nil without --objects-dir
}

func newReferences(cfg *Config, changes *objectChanges, c *cluster) (r references, err error) {
	switch {
	case c != nil:
		return references{lookup: c.objects, accounts: c.objects.Accounts()}, nil
	case cfg.Flags.ObjectsDir == "":
		return references{lookup: noObjects{}}, nil
	}
	r.folder, err = objects.NewDir(objects.DirConfig{Path: cfg.Flags.ObjectsDir, OnChange: changes.add, Logger: cfg.Logger})
	r.lookup = r.folder
	return r, err
}

func (r references) run(ctx context.Context) error {
	if r.folder == nil {
		<-ctx.Done()
		return nil
	}
	return r.folder.Run(ctx)
}

// health returns an error while the folder cannot be read.
func (r references) health() error {
	if r.folder == nil {
		return nil
	}
	return r.folder.CheckHealth()
}

func (r references) problems() []objects.Problem {
	if r.folder == nil {
		return nil
	}
	return r.folder.Problems()
}

// followObjects updates volumes and pods after changes of objects, until ctx is done.
func (n *node) followObjects(ctx context.Context) error {
	n.in.changes.follow(ctx, n.objectsChanged)
	return nil
}

// objectsChanged passes changed objects to the volume manager, and marks pods that reference them
// as dirty: their environment or image pull may wait for one.
func (n *node) objectsChanged(changed []volume.Object) {
	for _, o := range changed {
		n.volumes.manager.Changed(o)
	}
	for uid, pod := range n.lifecycle.current() {
		if slices.ContainsFunc(objects.References(pod), func(o volume.Object) bool { return isOneOf(o, changed) }) {
			n.in.dirty.Emit(syncloop.Event{Kind: syncloop.PodDirty, UID: uid})
		}
	}
}

// isOneOf reports whether o is one of several. An o without a name matches all objects of its kind.
func isOneOf(o volume.Object, several []volume.Object) bool {
	return slices.ContainsFunc(several, func(other volume.Object) bool {
		return o == other || o.Name == "" && o.Kind == other.Kind
	})
}

// errNoObjects is returned for each object if there is neither an API server nor a folder of
// objects.
var errNoObjects = errors.New("standalone kubelet without --objects-dir: no source of objects")

// noObjects is the lookup without an API server and without a folder.
type noObjects struct{}

func (noObjects) ConfigMap(context.Context, string, string) (*v1.ConfigMap, error) {
	return nil, errNoObjects
}

func (noObjects) Secret(context.Context, string, string) (*v1.Secret, error) {
	return nil, errNoObjects
}

func (noObjects) Token(context.Context, objects.TokenRequest) (objects.Token, error) {
	return objects.Token{}, errNoObjects
}

func (noObjects) CSIDriver(string) (*storagev1.CSIDriver, error) { return nil, errNoObjects }

func (noObjects) TrustBundle(context.Context, string) (string, error) { return "", errNoObjects }

func (noObjects) TrustBundlesOf(context.Context, string, *metav1.LabelSelector) ([]string, error) {
	return nil, errNoObjects
}
