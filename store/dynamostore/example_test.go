package dynamostore_test

import (
	"context"
	"fmt"
	"log"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/store/dynamostore"
)

func Example() {
	ctx := context.Background()
	cfg, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		log.Fatal(err)
	}
	s, err := dynamostore.New(dynamodb.NewFromConfig(cfg), dynamostore.Config{Table: "soloist"})
	if err != nil {
		log.Fatal(err)
	}
	client, err := soloist.New(s, soloist.Config{RequireFencing: true})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	err = client.Do(ctx, "close-month", func(ctx context.Context, lease *soloist.Lease) error {
		fmt.Println("token", lease.Token())
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
}
