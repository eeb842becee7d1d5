package agent

import (
	"context"
	"fmt"
	"os"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/images/credentials"
	"github.com/podwright/podwright/cri/images/imageref"
)

// credentials are what registries are shown, in the order of a kubelet: pull
// secrets, the node's own, plugins.
func (g *ground) credentials(from named) (credentials.Source, error) {
	secrets, err := credentials.NewPullSecrets(credentials.PullSecretsConfig{Secrets: from, Event: g.event, Logger: g.cfg.Logger})
	if err != nil {
		return nil, err
	}
	sources := []credentials.Source{
		secrets,
		credentials.NewNodeConfig(dockerConfigs(g.cfg.Flags.RootDir, os.Getenv("HOME")), g.cfg.Logger),
	}
	if g.cfg.Flags.CredentialProviderConfig == "" {
		return credentials.Chain(sources...), nil
	}
	providers, err := credentials.LoadPluginConfig(g.cfg.Flags.CredentialProviderConfig)
	if err != nil {
		return nil, err
	}
	plugins, err := credentials.NewPlugins(credentials.PluginsConfig{
		Providers: providers, BinDir: g.cfg.Flags.CredentialProviderBinDir, Logger: g.cfg.Logger,
	})
	if err != nil {
		return nil, err
	}
	return credentials.Chain(append(sources, plugins)...), nil
}

// imagesInUse names images that no container tells of: those that are about to get
// one, and those of image volumes. They may not be removed, so an image that cannot
// be looked up is an error. A reference that names no image is nobody's: it must not
// keep the images of others.
func (n *node) imagesInUse(ctx context.Context) ([]string, error) {
	out := n.images.InUse()
	for _, pod := range n.current() {
		for i := range pod.Spec.Volumes {
			image := pod.Spec.Volumes[i].Image
			if image == nil || image.Reference == "" {
				continue
			}
			name, err := imageref.Normalize(image.Reference)
			if err != nil {
				continue
			}
			reply, err := n.conn.Images.ImageStatus(ctx, &runtimeapi.ImageSpec{Image: name}, false)
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

// nodeReference is how events refer to a node: by its name as a UID, as package node's do.
func nodeReference(name string) v1.ObjectReference {
	return v1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: name, UID: types.UID(name)}
}
