package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// imageRegistry serves images from memory on a loopback port.
type imageRegistry struct{ *httpServer }

func startRegistry(ctx context.Context) (*imageRegistry, error) {
	s, err := serveHTTP(ctx, "tcp", "127.0.0.1:0", registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	if err != nil {
		return nil, fmt.Errorf("registry: %w", err)
	}
	return &imageRegistry{s}, nil
}

func (r *imageRegistry) ref(image string) string { return r.addr + "/" + image }

func (r *imageRegistry) push(ctx context.Context, images []testImage) error {
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	for _, image := range images {
		ref, err := name.ParseReference(r.ref(image.name))
		if err != nil {
			return err
		}
		if err := remote.Write(ref, image.img, remote.WithContext(ctx), remote.WithTransport(transport)); err != nil {
			return fmt.Errorf("push %s: %w", ref, err)
		}
	}
	return nil
}
