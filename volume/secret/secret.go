// Package secret has the plugin for secret volumes: files with the values of a Secret's
// keys, in memory, brought up to date when the object changes.
//
// An example that runs: Example in secret_test.go.
package secret

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/required"
	"github.com/podwright/podwright/volume"
	"github.com/podwright/podwright/volume/content"
	"github.com/podwright/podwright/volume/objects"
	"github.com/podwright/podwright/volume/sources"
)

// Name is the plugin's name.
const Name = "kubernetes.io/secret"

// Config configures the plugin.
type Config struct {
	// Volumes keeps the volumes. Required.
	Volumes *content.Volumes
	// Secrets gets the objects. Required.
	Secrets objects.Secrets
}

// New returns the plugin.
func New(cfg Config) (*content.Plugin, error) {
	if err := required.Field("secret: Config.Volumes", cfg.Volumes); err != nil {
		return nil, err
	}
	if err := required.Field("secret: Config.Secrets", cfg.Secrets); err != nil {
		return nil, err
	}
	return content.NewPlugin(cfg.Volumes, content.Kind{
		Name: Name, Takes: func(s *v1.VolumeSource) bool { return s.Secret != nil },
		Collect: cfg.collect, Objects: objects.VolumeReferences,
	})
}

func (cfg *Config) collect(ctx context.Context, m volume.Mount) (c content.Content, err error) {
	s := m.Spec.Inline.Secret
	p := &v1.SecretProjection{LocalObjectReference: v1.LocalObjectReference{Name: s.SecretName}, Items: s.Items, Optional: s.Optional}
	c.Medium = v1.StorageMediumMemory
	if c.Payload, err = sources.Secret(ctx, cfg.Secrets, m.Pod.Namespace, p, s.DefaultMode); err != nil {
		return c, volume.AtField("secret", err)
	}
	return c, nil
}
