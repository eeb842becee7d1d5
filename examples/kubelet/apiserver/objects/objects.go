package objects

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri/pods/request"
	"github.com/podwright/podwright/examples/kubelet/apiserver"
	"github.com/podwright/podwright/internal/fields"
	"github.com/podwright/podwright/volume"
	"github.com/podwright/podwright/volume/claims"
	"github.com/podwright/podwright/volume/csi"
	"github.com/podwright/podwright/volume/objects"
)

// ErrAlreadyRun is returned by a second Run.
var ErrAlreadyRun = errors.New("objects: Run was called before")

// Config configures Objects. Client is required.
type Config struct {
	// Client connects to the API server.
	Client *apiserver.Client
	// OnChange is called with config maps, secrets and trust bundles that were added, changed or
	// removed since their first request. It must not block. Optional.
	OnChange func([]volume.Object)
	// Logger receives failed reads of the server and their end. Default: discard.
	Logger *slog.Logger
}

// Objects reads from an API server the objects that pods reference. Create it with New. It is safe
// for concurrent use. Callers must not change the objects that it returns.
type Objects struct {
	cfg     Config
	watches watches
	ran     atomic.Bool

	configMaps *pool[*v1.ConfigMap, *v1.ConfigMapList]
	secrets    *pool[*v1.Secret, *v1.SecretList]
	services   *kindFeed[*v1.Service, *v1.ServiceList]
	classes    *kindFeed[*nodev1.RuntimeClass, *nodev1.RuntimeClassList]
	drivers    *kindFeed[*storagev1.CSIDriver, *storagev1.CSIDriverList]
	bundles    bundles
	tokens     *objects.TokenCache
}

var (
	_ objects.ConfigMaps   = (*Objects)(nil)
	_ objects.Secrets      = (*Objects)(nil)
	_ objects.Tokens       = (*Objects)(nil)
	_ objects.TrustBundles = (*Objects)(nil)
	_ request.Services     = (*Objects)(nil)
	_ claims.Objects       = (*Objects)(nil)
	_ objects.CSIDrivers   = (*Objects)(nil)
	_ csi.Attachments      = (*Objects)(nil)
)

// New checks the configuration. It reads no objects before Run.
func New(cfg Config) (_ *Objects, err error) {
	if err := fields.Required("objects: Config.Client", cfg.Client); err != nil {
		return nil, err
	}
	fields.Default(&cfg.OnChange, func([]volume.Object) {})
	fields.Logger(&cfg.Logger)
	o := &Objects{cfg: cfg}
	c := cfg.Client
	o.configMaps = newPool(o, objects.KindConfigMap, c.ConfigMaps(""), func(m *v1.ConfigMap) *bool { return m.Immutable })
	o.secrets = newPool(o, objects.KindSecret, c.Secrets(""), func(s *v1.Secret) *bool { return s.Immutable })
	o.services = newKindFeed(o, c.Services(""), trimService, nil)
	o.classes = newKindFeed(o, c.RuntimeClasses(), nil, nil)
	o.drivers = newKindFeed(o, c.CSIDrivers(), nil, nil)
	o.bundles = newBundles(o)
	if o.tokens, err = objects.NewTokenCache(objects.TokenCacheConfig{Tokens: issuer{c}, Logger: cfg.Logger}); err != nil {
		return nil, fmt.Errorf("objects: %w", err)
	}
	return o, nil
}

// Run reads objects until ctx is done, and returns nil. A second call returns ErrAlreadyRun.
func (o *Objects) Run(ctx context.Context) error {
	if o.ran.Swap(true) {
		return ErrAlreadyRun
	}
	o.watches.begin(ctx)
	if _, err := o.services.start(); err != nil {
		return err
	}
	<-ctx.Done()
	o.watches.join()
	return nil
}

// ConfigMap implements objects.ConfigMaps.
func (o *Objects) ConfigMap(ctx context.Context, namespace, name string) (*v1.ConfigMap, error) {
	return o.configMaps.get(ctx, namespace, name)
}

// Secret implements objects.Secrets.
func (o *Objects) Secret(ctx context.Context, namespace, name string) (*v1.Secret, error) {
	return o.secrets.get(ctx, namespace, name)
}

// Keep drops the tokens of all pods except pods. It ends the watches of config maps and secrets
// that neither pods nor ofVolumes reference. ofVolumes are the objects of persistent volumes, which
// reference secrets of their own. A later request starts the watch again.
func (o *Objects) Keep(pods []*v1.Pod, ofVolumes []volume.Object) {
	known := make(map[types.UID]bool, len(pods))
	for _, pod := range pods {
		known[pod.UID] = true
	}
	o.tokens.Retain(func(uid types.UID) bool { return known[uid] })
	if o.configMaps.empty() && o.secrets.empty() {
		return
	}
	wanted := map[volume.Object]bool{}
	for _, ref := range ofVolumes {
		wanted[ref] = true
	}
	for _, pod := range pods {
		for _, ref := range objects.References(pod) {
			wanted[ref] = true
		}
	}
	o.configMaps.keep(wanted)
	o.secrets.keep(wanted)
}
