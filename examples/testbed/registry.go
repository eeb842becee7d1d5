package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// imageRegistry serves images from memory on a port of the loopback.
type imageRegistry struct {
	addr string
	srv  *http.Server
	done chan error
}

func startRegistry(ctx context.Context) (*imageRegistry, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("registry: %w", err)
	}
	r := &imageRegistry{
		addr: l.Addr().String(),
		srv: &http.Server{
			Handler:  registry.New(registry.Logger(log.New(io.Discard, "", 0))),
			ErrorLog: log.New(io.Discard, "", 0),
		},
		done: make(chan error, 1),
	}
	go func() { r.done <- r.srv.Serve(l) }()
	return r, nil
}

func (r *imageRegistry) close() error {
	err := r.srv.Close()
	if served := <-r.done; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

// ref is the full name of an image in this registry.
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
