package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
)

// healthPath is the HTTP/2 path of the method of gRPC's health protocol.
const healthPath = "/grpc.health.v1.Health/Check"

// gRPC codes of the responses.
const (
	grpcOK              = 0
	grpcInvalidArgument = 3
	grpcNotFound        = 5
)

// Statuses of a service.
const (
	serving    = 1
	notServing = 2
)

// health responds to gRPC health checks. The server as a whole, service "", has the status of
// /healthz. Service "up" is always serving, "down" never, "hang" does not respond, and all others
// are not found.
func health(failing *atomic.Bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		service, err := readService(r.Body)
		state, code := byte(serving), grpcOK
		switch {
		case err != nil:
			code = grpcInvalidArgument
		case service == "down", service == "" && failing.Load():
			state = notServing
		case service == "hang":
			<-r.Context().Done()
			return
		case service != "" && service != "up":
			code = grpcNotFound
		}
		w.Header().Set("Content-Type", "application/grpc")
		if code == grpcOK {
			// One uncompressed message of two bytes: field 1 is the status.
			_, _ = w.Write([]byte{0, 0, 0, 0, 2, 1 << 3, state})
		}
		w.Header().Set(http.TrailerPrefix+"Grpc-Status", fmt.Sprint(code))
	}
}

// readService reads a HealthCheckRequest, whose only field is the service's name.
func readService(body io.Reader) (string, error) {
	var head [5]byte
	if _, err := io.ReadFull(body, head[:]); err != nil {
		return "", err
	}
	length := binary.BigEndian.Uint32(head[1:])
	if head[0] != 0 || length > 1<<10 {
		return "", fmt.Errorf("message of %d bytes, compression %d", length, head[0])
	}
	message := make([]byte, length)
	if _, err := io.ReadFull(body, message); err != nil || length == 0 {
		return "", err
	}
	size, n := binary.Uvarint(message[1:])
	if message[0] != 1<<3|2 || n <= 0 || size != uint64(len(message)-1-n) {
		return "", fmt.Errorf("not a health check: %x", message)
	}
	return string(message[1+n:]), nil
}
