// Package downwardapi has the plugin for downwardAPI volumes: files with fields of the
// pod and resources of its containers, in memory, brought up to date when the pod is
// synced.
//
// An example that runs: Example in downwardapi_test.go.
package downwardapi

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/required"
	"github.com/podwright/podwright/volume"
	"github.com/podwright/podwright/volume/content"
	"github.com/podwright/podwright/volume/sources"
)

// Name is the plugin's name.
const Name = "kubernetes.io/downward-api"

// Config configures the plugin.
type Config struct {
	// Volumes keeps the volumes. Required.
	Volumes *content.Volumes
	// Allocatable is what the node has for pods: the limit of containers that have none.
	// nil means nothing.
	Allocatable func() v1.ResourceList
}

// New returns the plugin.
func New(cfg Config) (*content.Plugin, error) {
	if err := required.Field("downwardapi: Config.Volumes", cfg.Volumes); err != nil {
		return nil, err
	}
	if cfg.Allocatable == nil {
		cfg.Allocatable = func() v1.ResourceList { return nil }
	}
	return content.NewPlugin(cfg.Volumes, content.Kind{
		Name: Name, Takes: func(s *v1.VolumeSource) bool { return s.DownwardAPI != nil },
		Collect: cfg.collect,
	})
}

func (cfg *Config) collect(_ context.Context, m volume.Mount) (c content.Content, err error) {
	s := m.Spec.Inline.DownwardAPI
	c.Medium = v1.StorageMediumMemory
	if c.Payload, err = sources.DownwardAPI(m.Pod, s.Items, s.DefaultMode, cfg.Allocatable()); err != nil {
		return c, volume.AtField("downwardAPI", err)
	}
	return c, nil
}
