package projected

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/fields"
	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/volume"
	"github.com/podwright/podwright/volume/objects"
	"github.com/podwright/podwright/volume/ownership"
)

// Names of the plugins.
const (
	configMapName   = "kubernetes.io/configmap"
	secretName      = "kubernetes.io/secret"
	downwardAPIName = "kubernetes.io/downward-api"
	projectedName   = "kubernetes.io/projected"
)

// Config configures the plugins. Without a source of objects, volumes with such objects fail.
type Config struct {
	// Backing creates the folders of the volumes: the plugin for emptyDir volumes. Required.
	Backing volume.Plugin

	ConfigMaps   objects.ConfigMaps
	Secrets      objects.Secrets
	TrustBundles objects.TrustBundles
	// Tokens issues tokens at each mount. Use an objects.TokenCache; its Retain drops the
	// tokens of deleted pods.
	Tokens objects.Tokens
	// Allocatable returns the node's resources for pods: the limits of containers without
	// limits. Default: no resources.
	Allocatable func() v1.ResourceList

	// Logger receives files whose group could not be changed. Default: no logs.
	Logger *slog.Logger
}

// New returns the plugins for configMap, secret, downwardAPI and projected volumes.
func New(cfg Config) ([]volume.Plugin, error) {
	v, err := newVolumes(cfg)
	if err != nil {
		return nil, err
	}
	return []volume.Plugin{
		&plugin{configMapName, func(s *v1.VolumeSource) bool { return s.ConfigMap != nil }, v},
		&plugin{secretName, func(s *v1.VolumeSource) bool { return s.Secret != nil }, v},
		&plugin{downwardAPIName, func(s *v1.VolumeSource) bool { return s.DownwardAPI != nil }, v},
		&plugin{projectedName, func(s *v1.VolumeSource) bool { return s.Projected != nil }, v},
	}, nil
}

func newVolumes(cfg Config) (*volumes, error) {
	f := fields.Of("projected: Config")
	f.Required("Backing", cfg.Backing)
	fields.Default(&cfg.Allocatable, func() v1.ResourceList { return nil })
	fields.Logger(&cfg.Logger)
	return &volumes{cfg: cfg, chown: ownership.Chown, fingerprints: newFingerprints()}, f.Err()
}

// plugin implements volume.Plugin for one kind of volume.
type plugin struct {
	name     string
	supports func(source *v1.VolumeSource) bool
	volumes  *volumes
}

var (
	_ volume.Plugin    = (*plugin)(nil)
	_ volume.Remounter = (*plugin)(nil)
	_ volume.Dependent = (*plugin)(nil)
)

// Name implements volume.Plugin.
func (p *plugin) Name() string { return p.name }

// Supports implements volume.Plugin.
func (p *plugin) Supports(spec *volume.Spec) bool {
	return spec.Inline != nil && p.supports(spec.Inline)
}

// Remounts implements volume.Remounter.
func (p *plugin) Remounts(*volume.Spec) bool { return true }

// Objects implements volume.Dependent.
func (p *plugin) Objects(pod *v1.Pod, spec *volume.Spec) []volume.Object {
	if spec.Inline == nil {
		return nil
	}
	return objects.VolumeReferences(pod, spec.Inline)
}

// Mount implements volume.Plugin.
func (p *plugin) Mount(ctx context.Context, m volume.Mount) (volume.Mounted, error) {
	c, err := p.volumes.cfg.collect(ctx, m)
	if err != nil {
		return volume.Mounted{}, volume.Transient(err)
	}
	return p.volumes.mount(ctx, m, c)
}

// Unmount implements volume.Plugin.
func (p *plugin) Unmount(ctx context.Context, u volume.Unmount) error {
	return p.volumes.unmount(ctx, u)
}

func (cfg *Config) collect(ctx context.Context, m volume.Mount) (c content, err error) {
	c.medium = v1.StorageMediumMemory
	var source v1.VolumeProjection
	var mode *int32
	switch in := m.Spec.Inline; {
	case in.Projected != nil:
		return cfg.collectAll(ctx, m, in.Projected)
	case in.ConfigMap != nil:
		s := in.ConfigMap
		c.medium, mode = v1.StorageMediumDefault, s.DefaultMode
		source.ConfigMap = &v1.ConfigMapProjection{LocalObjectReference: s.LocalObjectReference, Items: s.Items, Optional: s.Optional}
	case in.Secret != nil:
		s := in.Secret
		mode = s.DefaultMode
		source.Secret = &v1.SecretProjection{LocalObjectReference: v1.LocalObjectReference{Name: s.SecretName}, Items: s.Items, Optional: s.Optional}
	case in.DownwardAPI != nil:
		mode = in.DownwardAPI.DefaultMode
		source.DownwardAPI = &v1.DownwardAPIProjection{Items: in.DownwardAPI.Items}
	}
	c.payload, c.refreshAt, err = cfg.source(ctx, m, &source, mode)
	return c, err
}

// collectAll returns the content of a projected volume. It reads all sources, so that the error
// contains all faults.
func (cfg *Config) collectAll(ctx context.Context, m volume.Mount, s *v1.ProjectedVolumeSource) (content, error) {
	c := content{medium: v1.StorageMediumMemory, payload: payload{}}
	if err := clashes(s); err != nil {
		return c, err
	}
	var errs []error
	for i := range s.Sources {
		files, refresh, err := cfg.source(ctx, m, &s.Sources[i], s.DefaultMode)
		if err != nil {
			errs = append(errs, volume.AtField(fmt.Sprintf("projected.sources[%d]", i), err))
			continue
		}
		c.payload.add(files)
		if !refresh.IsZero() && (c.refreshAt.IsZero() || refresh.Before(c.refreshAt)) {
			c.refreshAt = refresh
		}
	}
	return c, run.Join(errs...)
}

// clashes returns an error for paths that two sources name.
func clashes(s *v1.ProjectedVolumeSource) error {
	var errs []error
	for _, c := range podfacts.Clashes(s.Sources) {
		errs = append(errs, volume.AtField("projected."+c.Field, fmt.Errorf("%.80q is also the path of projected.%s", c.Path, c.First)))
	}
	return run.Join(errs...)
}

// source returns the files of one source. Its error contains the source's field.
func (cfg *Config) source(ctx context.Context, m volume.Mount, s *v1.VolumeProjection, mode *int32) (files payload, refresh time.Time, err error) {
	field := ""
	switch {
	case s.ConfigMap != nil:
		field = "configMap"
		files, err = configMapFiles(ctx, cfg.ConfigMaps, m.Pod.Namespace, s.ConfigMap, mode)
	case s.Secret != nil:
		field = "secret"
		files, err = secretFiles(ctx, cfg.Secrets, m.Pod.Namespace, s.Secret, mode)
	case s.DownwardAPI != nil:
		field = "downwardAPI"
		files, err = downwardFiles(m.Pod, s.DownwardAPI.Items, mode, cfg.Allocatable())
	case s.ServiceAccountToken != nil:
		field = "serviceAccountToken"
		files, refresh, err = tokenFile(ctx, cfg.Tokens, m, s.ServiceAccountToken, mode)
	case s.ClusterTrustBundle != nil:
		field = "clusterTrustBundle"
		files, err = trustBundleFile(ctx, cfg.TrustBundles, m, s.ClusterTrustBundle, mode)
	case s.PodCertificate != nil:
		field, err = "podCertificate", errors.New("this agent has no pod certificates")
	default:
		field, err = "source", errors.New("no source that this agent supports is set")
	}
	if err != nil {
		return nil, refresh, volume.AtField(field, err)
	}
	return files, refresh, nil
}
