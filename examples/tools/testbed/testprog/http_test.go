package main

import (
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// A gRPC client can decode the responses.
func TestHealth(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	srv := httptest.NewUnstartedServer(routes(make(chan int, 1)))
	srv.Listener.Close()
	srv.Listener = l
	srv.Config.Protocols = &http.Protocols{}
	srv.Config.Protocols.SetHTTP1(true)
	srv.Config.Protocols.SetUnencryptedHTTP2(true)
	srv.Start()
	defer srv.Close()
	client, err := grpc.NewClient("passthrough:///"+l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer client.Close()
	check := func(service string) (grpc_health_v1.HealthCheckResponse_ServingStatus, codes.Code) {
		reply, err := grpc_health_v1.NewHealthClient(client).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: service})
		return reply.GetStatus(), status.Code(err)
	}
	get := func(path string) int {
		response, err := srv.Client().Get(srv.URL + path)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		return response.StatusCode
	}
	for service, want := range map[string]grpc_health_v1.HealthCheckResponse_ServingStatus{
		"": grpc_health_v1.HealthCheckResponse_SERVING, "up": grpc_health_v1.HealthCheckResponse_SERVING, "down": grpc_health_v1.HealthCheckResponse_NOT_SERVING,
	} {
		state, code := check(service)
		require.Equal(t, codes.OK, code, service)
		require.Equal(t, want, state, service)
	}
	_, code := check("who")
	require.Equal(t, codes.NotFound, code)
	require.Equal(t, 200, get("/fail"))
	state, _ := check("")
	require.Equal(t, grpc_health_v1.HealthCheckResponse_NOT_SERVING, state)

	require.Equal(t, 404, get("/status?code=404"))
	require.Equal(t, 400, get("/status?code=x"))
	require.Equal(t, 200, get("/chain?n=3"))
	require.Equal(t, 404, get("/redirect?to=/status?code=404"))
	quick := &http.Client{Timeout: 50 * time.Millisecond, Transport: &http.Transport{DisableKeepAlives: true}}
	_, err = quick.Get(srv.URL + "/silent")
	require.Error(t, err)
}

func TestCertificate(t *testing.T) {
	config, err := certificate()
	require.NoError(t, err)
	require.Len(t, config.Certificates, 1)
}
