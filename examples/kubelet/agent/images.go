package agent

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/images"
	"github.com/podwright/podwright/cri/images/credentials"
	"github.com/podwright/podwright/cri/images/gc"
	"github.com/podwright/podwright/cri/images/imageref"
	"github.com/podwright/podwright/cri/images/records"
)

func newRecords(cfg *Config) (*records.Store, error) {
	return records.Open(records.Config{
		Dir:       filepath.Join(cfg.Flags.RootDir, "image_manager"),
		Policy:    records.Policy(cfg.Kubelet.ImagePullCredentialsVerificationPolicy),
		Allowlist: cfg.Kubelet.PreloadedImagesVerificationAllowlist,
		OnCheck:   cfg.Metrics.Images.Checked,
		Logger:    cfg.Logger,
	})
}

func newImages(cfg *Config, conn *Connection, store *records.Store, from references, recorder recorder) (*images.Manager, error) {
	source, err := newCredentials(cfg, from, recorder)
	if err != nil {
		return nil, err
	}
	k := &cfg.Kubelet
	return images.New(images.Config{
		Service:          conn.Images,
		MaxParallelPulls: parallelPulls(k),
		QPS:              float64(unlimited(int(*k.RegistryPullQPS))),
		Burst:            int(k.RegistryBurst),
		Credentials:      source,
		Records:          store,
		Span:             cfg.Span,
		Metrics:          imageMetrics(cfg.Metrics),
		Event:            recorder.event,
		Logger:           cfg.Logger,
	})
}

func newImageGC(cfg *Config, conn *Connection, store *records.Store, manager *images.Manager, recorder recorder, l *lifecycle) (*gc.Manager, error) {
	return gc.New(gc.Config{
		Images:     conn.Images,
		Containers: conn.Runtime,
		Policy:     imageGC(&cfg.Kubelet),
		InUse: func(ctx context.Context) ([]string, error) {
			return imagesInUse(ctx, conn.Images, manager, l.current())
		},
		OnList:   store.Tidy,
		Span:     cfg.Span,
		OnRemove: cfg.Metrics.Images.Removed,
		Node:     recorder.node,
		Event:    recorder.event,
		Logger:   cfg.Logger,
	})
}

// newCredentials builds the credentials for registries, in the kubelet's order: pull secrets, the
// node's own, plugins.
func newCredentials(cfg *Config, from references, recorder recorder) (credentials.Source, error) {
	secrets, err := credentials.NewPullSecrets(credentials.PullSecretsConfig{Secrets: from, Event: recorder.event, Logger: cfg.Logger})
	if err != nil {
		return nil, err
	}
	sources := []credentials.Source{
		secrets,
		credentials.NewNodeConfig(dockerConfigs(cfg.Flags.RootDir, os.Getenv("HOME")), cfg.Logger),
	}
	if cfg.Flags.CredentialProviderConfig == "" {
		return credentials.Chain(sources...), nil
	}
	providers, err := credentials.LoadPluginConfig(cfg.Flags.CredentialProviderConfig)
	if err != nil {
		return nil, err
	}
	hash, err := credentials.HashPluginConfig(cfg.Flags.CredentialProviderConfig)
	if err != nil {
		return nil, err
	}
	cfg.Metrics.Images.PluginConfig(hash)
	plugins, err := credentials.NewPlugins(credentials.PluginsConfig{
		Providers: providers, BinDir: cfg.Flags.CredentialProviderBinDir, ServiceAccounts: from.accounts,
		OnExec: cfg.Metrics.Images.Plugin, Logger: cfg.Logger,
	})
	if err != nil {
		return nil, err
	}
	return credentials.Chain(append(sources, plugins)...), nil
}

// imagesInUse returns images that are in use without a container: images of containers that are
// about to be created, and of image volumes. A failed lookup is an error, because such images must
// stay. An invalid reference uses no image.
func imagesInUse(ctx context.Context, service cri.ImageService, manager *images.Manager, current map[types.UID]*v1.Pod) ([]string, error) {
	out := manager.InUse()
	for _, pod := range current {
		for i := range pod.Spec.Volumes {
			image := pod.Spec.Volumes[i].Image
			if image == nil || image.Reference == "" {
				continue
			}
			name, err := imageref.Normalize(image.Reference)
			if err != nil {
				continue
			}
			reply, err := service.ImageStatus(ctx, &runtimeapi.ImageSpec{Image: name}, false)
			if err != nil {
				return nil, fmt.Errorf("image of volume %s of pod %s/%s: %w", pod.Spec.Volumes[i].Name, pod.Namespace, pod.Name, err)
			}
			if id := reply.GetImage().GetId(); id != "" {
				out = append(out, id)
			}
		}
	}
	return out, nil
}
