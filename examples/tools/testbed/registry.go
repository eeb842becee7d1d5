package main

import (
	"context"
	"fmt"
	"io"
	"log"

	"github.com/google/go-containerregistry/pkg/registry"

	"github.com/podwright/podwright/examples/tools/internal/image"
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

func (r *imageRegistry) ref(name string) string { return r.addr + "/" + name }

func (r *imageRegistry) push(ctx context.Context, images []testImage) error {
	for _, i := range images {
		if err := image.Push(ctx, r.ref(i.name), i.img); err != nil {
			return err
		}
	}
	return nil
}
