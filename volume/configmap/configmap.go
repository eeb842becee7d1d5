// Package configmap has the plugin for configMap volumes: files with the values of a
// ConfigMap's keys, on the node's disk, brought up to date when the object changes.
//
// An example that runs: Example in configmap_test.go.
package configmap

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
const Name = "kubernetes.io/configmap"

// Config configures the plugin.
type Config struct {
	// Volumes keeps the volumes. Required.
	Volumes *content.Volumes
	// ConfigMaps gets the objects. Required.
	ConfigMaps objects.ConfigMaps
}

// New returns the plugin.
func New(cfg Config) (*content.Plugin, error) {
	if err := required.Field("configmap: Config.Volumes", cfg.Volumes); err != nil {
		return nil, err
	}
	if err := required.Field("configmap: Config.ConfigMaps", cfg.ConfigMaps); err != nil {
		return nil, err
	}
	return content.NewPlugin(cfg.Volumes, content.Kind{
		Name: Name, Takes: func(s *v1.VolumeSource) bool { return s.ConfigMap != nil },
		Collect: cfg.collect, Objects: objects.VolumeReferences,
	})
}

func (cfg *Config) collect(ctx context.Context, m volume.Mount) (c content.Content, err error) {
	s := m.Spec.Inline.ConfigMap
	p := &v1.ConfigMapProjection{LocalObjectReference: s.LocalObjectReference, Items: s.Items, Optional: s.Optional}
	if c.Payload, err = sources.ConfigMap(ctx, cfg.ConfigMaps, m.Pod.Namespace, p, s.DefaultMode); err != nil {
		return c, volume.AtField("configMap", err)
	}
	return c, nil
}
