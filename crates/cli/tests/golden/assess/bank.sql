--
-- PostgreSQL database dump
--

\restrict sample

-- Dumped from database version 15.18 (Debian 15.18-0+deb12u1)
-- Dumped by pg_dump version 15.18 (Debian 15.18-0+deb12u1)

SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

--
-- Name: mood; Type: TYPE; Schema: public; Owner: -
--

CREATE TYPE public.mood AS ENUM (
    'sad',
    'ok',
    'happy'
);


--
-- Name: double(integer); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.double(n integer) RETURNS integer
    LANGUAGE sql
    BEGIN ATOMIC
 SELECT
         CASE
             WHEN (n IS NULL) THEN 0
             ELSE (n * 2)
         END AS "case";
END;


--
-- Name: touch(); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.touch() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
begin
    new.note := 'touched; ' || coalesce(new.note, '');
    return new;
end;
$$;


SET default_tablespace = '';

SET default_table_access_method = heap;

--
-- Name: account; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.account (
    id integer NOT NULL,
    owner character varying(40) NOT NULL,
    balance numeric(12,2) DEFAULT 0.00 NOT NULL,
    opened timestamp with time zone DEFAULT now() NOT NULL,
    note text
);


--
-- Name: TABLE account; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON TABLE public.account IS 'What people have; with a semicolon.';


--
-- Name: counter; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.counter (
    id integer NOT NULL,
    n integer
);


--
-- Name: counter_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

ALTER TABLE public.counter ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.counter_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: diary; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.diary (
    day date NOT NULL,
    mood public.mood,
    text text
);


--
-- Name: ledger; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.ledger (
    id bigint NOT NULL,
    account integer NOT NULL,
    amount numeric(12,2),
    at date NOT NULL,
    CONSTRAINT ledger_amount_check CHECK ((amount <> (0)::numeric))
);


--
-- Name: ledger_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

CREATE SEQUENCE public.ledger_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: ledger_id_seq; Type: SEQUENCE OWNED BY; Schema: public; Owner: -
--

ALTER SEQUENCE public.ledger_id_seq OWNED BY public.ledger.id;


--
-- Name: rich; Type: VIEW; Schema: public; Owner: -
--

CREATE VIEW public.rich AS
 SELECT account.id,
    account.owner
   FROM public.account
  WHERE (account.balance > (1000)::numeric);


--
-- Name: ledger id; Type: DEFAULT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.ledger ALTER COLUMN id SET DEFAULT nextval('public.ledger_id_seq'::regclass);


--
-- Data for Name: account; Type: TABLE DATA; Schema: public; Owner: -
--

COPY public.account (id, owner, balance, opened, note) FROM stdin;
1	ada	100.50	2026-01-01 12:00:00+00	tab\tnewline\nbackslash\\ and ;
2	bob	0.00	2026-01-02 12:00:00+00	\N
3	Zoë	-1.00	2026-01-03 12:00:00+00	\\.
\.


--
-- Data for Name: counter; Type: TABLE DATA; Schema: public; Owner: -
--

COPY public.counter (id, n) FROM stdin;
\.


--
-- Data for Name: diary; Type: TABLE DATA; Schema: public; Owner: -
--

COPY public.diary (day, mood, text) FROM stdin;
2026-01-01	happy	new
2026-01-02	ok	old
\.


--
-- Data for Name: ledger; Type: TABLE DATA; Schema: public; Owner: -
--

COPY public.ledger (id, account, amount, at) FROM stdin;
1	1	5.00	2026-01-01
2	2	-5.00	2026-01-01
\.


--
-- Name: counter_id_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.counter_id_seq', 1, false);


--
-- Name: ledger_id_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.ledger_id_seq', 2, true);


--
-- Name: account account_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.account
    ADD CONSTRAINT account_pkey PRIMARY KEY (id);


--
-- Name: diary diary_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.diary
    ADD CONSTRAINT diary_pkey PRIMARY KEY (day);


--
-- Name: ledger ledger_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.ledger
    ADD CONSTRAINT ledger_pkey PRIMARY KEY (id);


--
-- Name: account_lower; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX account_lower ON public.account USING btree (lower((owner)::text));


--
-- Name: account_owner; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX account_owner ON public.account USING btree (owner);


--
-- Name: account touched; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER touched BEFORE UPDATE ON public.account FOR EACH ROW EXECUTE FUNCTION public.touch();


--
-- Name: ledger ledger_account_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.ledger
    ADD CONSTRAINT ledger_account_fkey FOREIGN KEY (account) REFERENCES public.account(id);


--
-- Name: TABLE account; Type: ACL; Schema: public; Owner: -
--

GRANT SELECT ON TABLE public.account TO PUBLIC;


--
-- Name: TABLE rich; Type: ACL; Schema: public; Owner: -
--

GRANT SELECT ON TABLE public.rich TO PUBLIC;


--
-- PostgreSQL database dump complete
--

\unrestrict sample

