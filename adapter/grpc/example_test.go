package grpcadapter_test

import (
	"context"
	"log"
	"net"

	"google.golang.org/grpc"

	"github.com/soloist-dev/soloist"
	grpcadapter "github.com/soloist-dev/soloist/adapter/grpc"
	"github.com/soloist-dev/soloist/elected"
	"github.com/soloist-dev/soloist/store/memstore"
)

func Example() {
	client, err := soloist.New(memstore.New(), soloist.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	leader := elected.New(client, "api")
	ctx, resign := context.WithCancel(context.Background())
	defer resign() // after server.GracefulStop
	go func() {
		if err := leader.Run(ctx); err != nil {
			log.Print(err)
		}
	}()
	server := grpc.NewServer(
		grpc.ChainUnaryInterceptor(grpcadapter.UnaryInterceptor(leader)),
		grpc.ChainStreamInterceptor(grpcadapter.StreamInterceptor(leader)),
	)
	listener, err := net.Listen("tcp", ":8080")
	if err != nil {
		log.Fatal(err)
	}
	if err := server.Serve(listener); err != nil {
		log.Print(err)
	}
}
