// Package projected has the plugin for projected volumes: files from several sources in
// one folder, in memory, brought up to date when one of the sources changes and before a
// token gets too old.
//
// Paths that are named twice, but for those of tokens, are refused, as an API server does.
// Of files that get the same path otherwise the later source's wins. If any source fails,
// nothing is written. podCertificate is refused.
//
// An example that runs: Example in projected_test.go.
package projected

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/internal/required"
	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/volume"
	"github.com/podwright/podwright/volume/content"
	"github.com/podwright/podwright/volume/objects"
	"github.com/podwright/podwright/volume/sources"
)

// Name is the plugin's name.
const Name = "kubernetes.io/projected"

// Config configures a Plugin. A source of which there is nothing here (nil) is an error
// of the volumes that name it.
type Config struct {
	// Volumes keeps the volumes. Required.
	Volumes *content.Volumes

	ConfigMaps   objects.ConfigMaps
	Secrets      objects.Secrets
	TrustBundles objects.TrustBundles
	// Tokens issues tokens, at each mount: use an objects.TokenCache, whose Retain drops
	// those of pods that are gone.
	Tokens objects.Tokens
	// Allocatable is what the node has for pods: the limit of containers that have none.
	// nil means nothing.
	Allocatable func() v1.ResourceList
}

// Plugin is the volume.Plugin for projected volumes. Use New.
type Plugin struct{ *content.Plugin }

// New returns a Plugin.
func New(cfg Config) (*Plugin, error) {
	if err := required.Field("projected: Config.Volumes", cfg.Volumes); err != nil {
		return nil, err
	}
	if cfg.Allocatable == nil {
		cfg.Allocatable = func() v1.ResourceList { return nil }
	}
	p, err := content.NewPlugin(cfg.Volumes, content.Kind{
		Name: Name, Takes: func(s *v1.VolumeSource) bool { return s.Projected != nil },
		Collect: cfg.collect, Objects: objects.VolumeReferences,
	})
	if err != nil {
		return nil, err
	}
	return &Plugin{p}, nil
}

// collect asks all sources, so that the error tells of all that is wrong.
func (cfg *Config) collect(ctx context.Context, m volume.Mount) (content.Content, error) {
	s := m.Spec.Inline.Projected
	c := content.Content{Medium: v1.StorageMediumMemory, Payload: content.Payload{}}
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
		c.Payload.Add(files)
		if !refresh.IsZero() && (c.RefreshAt.IsZero() || refresh.Before(c.RefreshAt)) {
			c.RefreshAt = refresh
		}
	}
	return c, run.Join(errs...)
}

// clashes refuses the paths that sources name twice.
func clashes(s *v1.ProjectedVolumeSource) error {
	var errs []error
	for _, c := range podfacts.Clashes(s.Sources) {
		errs = append(errs, volume.AtField("projected."+c.Field, fmt.Errorf("%.80q is the path of projected.%s, too", c.Path, c.First)))
	}
	return run.Join(errs...)
}

func (cfg *Config) source(ctx context.Context, m volume.Mount, s *v1.VolumeProjection, mode *int32) (files content.Payload, refresh time.Time, err error) {
	field := ""
	switch {
	case s.ConfigMap != nil:
		field = "configMap"
		files, err = sources.ConfigMap(ctx, cfg.ConfigMaps, m.Pod.Namespace, s.ConfigMap, mode)
	case s.Secret != nil:
		field = "secret"
		files, err = sources.Secret(ctx, cfg.Secrets, m.Pod.Namespace, s.Secret, mode)
	case s.DownwardAPI != nil:
		field = "downwardAPI"
		files, err = sources.DownwardAPI(m.Pod, s.DownwardAPI.Items, mode, cfg.Allocatable())
	case s.ServiceAccountToken != nil:
		field = "serviceAccountToken"
		files, refresh, err = sources.Token(ctx, cfg.Tokens, m, s.ServiceAccountToken, mode)
	case s.ClusterTrustBundle != nil:
		field = "clusterTrustBundle"
		files, err = sources.TrustBundle(ctx, cfg.TrustBundles, m, s.ClusterTrustBundle, mode)
	case s.PodCertificate != nil:
		field, err = "podCertificate", errors.New("this agent has no pod certificates")
	default:
		field, err = "source", errors.New("none is named that this agent knows")
	}
	if err != nil {
		return nil, refresh, volume.AtField(field, err)
	}
	return files, refresh, nil
}
